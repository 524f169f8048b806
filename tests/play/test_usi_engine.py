"""The conversation, with an engine in this process."""

import pytest

from keisei.shogi.shogi_game import ShogiGame
from tests.play.usi_talk import engine_in_thread

MATED = "8k/9/9/9/9/9/7g1/8g/8K b - 1"
MATE_IN_ONE = "4k4/9/4P4/9/9/9/9/9/4K4 b G 1"
BARE_KINGS = "4k4/9/9/9/9/9/9/9/4K4 b - 1"
DECLARES = "+P+P+P+PK+P+P+P+P/+P+R7/9/9/9/9/9/9/4k4 b R2B2G2S 1"


@pytest.fixture(scope="module")
def talk():
    with engine_in_thread() as talk:
        talk.say("isready")
        talk.hear("readyok")
        yield talk


@pytest.fixture(autouse=True)
def _with_usual_options(talk):
    for name, value in {
        "USI_MultiPV": 1,
        "Nodes": 20,
        "Temperature": 0,
        "DeclarationRule": 27,
        "ResignValue": 32000,
    }.items():
        talk.say(f"setoption name {name} value {value}")
    talk.heard.clear()


def move_of(answer):
    return answer.split()[1]


def test_usi_is_answered_with_name_and_options(talk):
    talk.say("usi")
    assert talk.hear("usiok")
    assert talk.heard[0] == "id name Keisei"
    assert talk.heard[1].startswith("id author ")
    assert all(line.startswith("option name ") for line in talk.heard[2:-1])


def test_go_is_answered_with_a_legal_move(talk):
    game = ShogiGame()
    assert game.is_legal(move_of(talk.ask("position startpos", "go nodes 5")))
    game.make_move("7g7f")
    assert game.is_legal(move_of(talk.ask("position startpos moves 7g7f", "go nodes 5")))
    assert any(line.startswith("info depth ") for line in talk.heard)


@pytest.mark.parametrize(
    "limit", ["", " byoyomi 50", " btime 100 wtime 100", " movetime 30", " depth 1"]
)
def test_every_limit_leads_to_an_answer(talk, limit):
    assert ShogiGame().is_legal(move_of(talk.ask("position startpos", f"go{limit}")))


def test_a_clock_at_zero_still_gets_a_legal_move(talk):
    answer = talk.ask("position startpos", "go btime 0 wtime 0 byoyomi 0")
    assert ShogiGame().is_legal(move_of(answer))


def test_infinite_waits_for_stop_however_soon_the_search_ends(talk):
    talk.say("position startpos", "setoption name Nodes value 0", "go infinite", "usi")
    talk.hear("usiok")
    assert not any(line.startswith("bestmove") for line in talk.heard)
    assert ShogiGame().is_legal(move_of(talk.ask("stop")))


def test_pondering_waits_for_ponderhit_or_stop(talk):
    for end in ("ponderhit", "stop", "gameover win"):
        talk.heard.clear()
        talk.say("position startpos moves 7g7f", "go ponder btime 100 wtime 100", "usi")
        talk.hear("usiok")
        assert not any(line.startswith("bestmove") for line in talk.heard)
        talk.say(end)
        assert talk.hear("bestmove")


def test_a_move_to_ponder_on_comes_with_the_answer_when_wanted(talk):
    answer = talk.ask("setoption name Nodes value 200", "position startpos", "go").split()
    assert [answer[0], answer[2]] == ["bestmove", "ponder"]
    game = ShogiGame()
    game.make_move(answer[1])
    assert game.is_legal(answer[3])
    talk.say("setoption name USI_Ponder value false")
    assert len(talk.ask("setoption name Nodes value 200", "position startpos", "go").split()) == 2
    talk.say("setoption name USI_Ponder value true")


def test_go_in_the_middle_of_a_search_is_ignored(talk):
    talk.say("position startpos", "go infinite", "go infinite")
    talk.hear("info string go is ignored")
    talk.say("stop", "stop")
    assert talk.hear("bestmove")
    talk.say("usi")
    talk.hear("usiok")
    assert sum(line.startswith("bestmove") for line in talk.heard) == 1


def test_stop_and_go_without_waiting_between_them_are_two_answers(talk):
    talk.say(
        "position startpos", "go infinite", "stop", "position startpos moves 7g7f", "go nodes 3"
    )
    assert ShogiGame().is_legal(move_of(talk.hear("bestmove")))
    game = ShogiGame()
    game.make_move("7g7f")
    assert game.is_legal(move_of(talk.hear("bestmove")))


@pytest.mark.parametrize(
    "position",
    ["sfen nonsense", "", "startpos moves 7g7e", "startpos moves 7g7f xyz", "sfen 9/9 b - 1"],
)
def test_where_there_is_no_position_the_engine_says_why_and_resigns(talk, position):
    assert talk.ask(f"position {position}", "go byoyomi 50") == "bestmove resign"
    assert talk.heard[-2].startswith("info string there is no position to move in: ")
    assert talk.ask(f"position {position}", "go mate 50") == "checkmate timeout"


def test_a_mated_player_resigns(talk):
    assert talk.ask(f"position sfen {MATED}", "go byoyomi 50") == "bestmove resign"


def test_a_player_worse_than_the_threshold_resigns(talk):
    talk.say("setoption name ResignValue value 1")
    answers = {
        talk.ask(f"position startpos moves {move}", "go nodes 5") for move in ("7g7f", "9g9f")
    }
    answers |= {talk.ask("position startpos", "go nodes 5")}
    scores = [int(line.split(" cp ")[1].split()[0]) for line in talk.heard if " cp " in line]
    assert ("bestmove resign" in answers) == (min(scores) <= -1)


def test_an_entered_king_is_declared_under_the_rule_that_is_set(talk):
    assert talk.ask(f"position sfen {DECLARES}", "go nodes 3") == "bestmove win"
    talk.say("setoption name DeclarationRule value off")
    assert talk.ask(f"position sfen {DECLARES}", "go nodes 3") != "bestmove win"
    talk.say("setoption name DeclarationRule value 24")
    assert talk.ask(f"position sfen {DECLARES}", "go nodes 3") == "bestmove win"


def test_mates_are_found_or_denied(talk):
    assert talk.ask(f"position sfen {MATE_IN_ONE}", "go mate 5000") == "checkmate G*5b"
    assert talk.ask(f"position sfen {BARE_KINGS}", "go mate infinite") == "checkmate nomate"


def test_several_lines_are_shown_when_wanted(talk):
    talk.say("setoption name USI_MultiPV value 3")
    talk.ask("position startpos", "go nodes 50")
    last = [line for line in talk.heard if " multipv " in line][-3:]
    assert [line.split(" multipv ")[1][0] for line in last] == ["1", "2", "3"]
    assert len({line.split(" pv ")[1].split()[0] for line in last}) == 3


def test_temperature_varies_the_first_moves(talk):
    talk.say("setoption name Nodes value 0", "setoption name Temperature value 200")
    assert len({talk.ask("position startpos", "go") for _ in range(20)}) > 1
    talk.say("setoption name Temperature value 0")
    assert len({talk.ask("position startpos", "go") for _ in range(3)}) == 1


def test_options_that_are_nonsense_get_a_sentence(talk):
    talk.say("setoption name Nodes value many")
    assert "Nodes is a whole number" in talk.hear("info string")
    talk.say("setoption name Book value 1")
    assert "there is no option 'Book'" in talk.hear("info string")


def test_unknown_commands_and_bytes_that_are_no_text_are_ignored(talk):
    talk.say("hello", b"\xff\xfe\x00\x80", "", "go\x00 nodes", b"\x93\xfa\x96\x7b", "usi")
    talk.hear("usiok")
    assert talk.heard[0] == "id name Keisei"


def test_a_line_that_is_far_too_long_leaves_no_position_to_move_in(talk):
    talk.say("position startpos", "position startpos moves " + "7g7f " * 100_000)
    assert talk.hear("info string").endswith("bytes was cut to one word")
    assert talk.ask("go nodes 3") == "bestmove resign"
    talk.say("x" * 1_000_000, " " * 300_000, "usi")
    talk.hear("usiok")


def test_a_game_of_five_thousand_moves_goes_on(talk):
    there_and_back = ["2h3h", "8b7b", "3h2h", "7b8b"] * 1250
    answer = talk.ask("position startpos moves " + " ".join(there_and_back), "go nodes 5")
    assert ShogiGame().is_legal(move_of(answer))


def test_a_new_game_and_ready_again_are_fine_at_any_time(talk):
    talk.say("usinewgame", "isready", "usinewgame", "position startpos", "go nodes 5", "isready")
    assert talk.hear("bestmove")


@pytest.mark.parametrize("go", ["go infinite", "go ponder", "go mate infinite", "go nodes 5"])
def test_quit_ends_whatever_goes_on(go):
    with engine_in_thread() as talk:
        talk.say("position startpos", go, "quit")


def test_the_end_of_the_stream_ends_the_engine_after_its_last_answers():
    with engine_in_thread() as talk:
        talk.say("isready", "position startpos", "go infinite")
        talk.hang_up()
        assert talk.hear("readyok")
        assert talk.hear("bestmove")


def test_a_failure_of_the_player_is_told():
    class Broken:
        def get_ready(self, options):
            raise RuntimeError("it broke")

    with engine_in_thread(Broken) as talk:
        talk.say("isready")
        assert talk.hear("info string") == "info string the engine ends: it broke"
    assert str(talk.failure) == "it broke"
