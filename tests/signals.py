"""What processes that tests start do with signals."""

import signal


def heed_ctrl_c():
    """For `preexec_fn`: a shell's background job ignores Ctrl-C, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
