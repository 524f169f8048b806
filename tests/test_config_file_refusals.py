"""The one sentence for a configuration file that is missing, unreadable or wrong."""

import tempfile

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from keisei.config_loading import ConfigError, load_config


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "seed: 1\nppo:\n  clip: 0.1: 2\n",
            "run.yaml: line 3: mapping values are not allowed here",
        ),
        ("ppo: [1\n", "run.yaml: line 2: expected ',' or ']', but got '<stream end>'"),
        (
            "seed: 1\n\tname: x",
            "run.yaml: line 2: found character '\\t' that cannot start any token",
        ),
        ("seed: 1\nname: \0", "run.yaml: line 2: the character '\\x00' is not allowed"),
        (
            "seed: 1\n---\nseed: 2",
            "run.yaml: line 2: expected a single document in the stream, "
            "but found another document",
        ),
        ("[" * 5000, "run.yaml: line 1: it is nested too deeply"),
        ("seed: 1\nseed: 2", "run.yaml: line 2: seed is given twice"),
        ("ppo:\n  clip: 0.1\n  clip: 0.1", "run.yaml: line 3: ppo.clip is given twice"),
        ("ppo: {}\ngames: {}\nppo: {}", "run.yaml: line 3: ppo is given twice"),
        ("? [a]\n: 1", "run.yaml: line 1: a key must be a name"),
        ("seed: !!int 3", "run.yaml: line 1: the tag 'tag:yaml.org,2002:int' is not supported"),
        ("a: &a 1\nb: *a", "run.yaml: line 2: aliases such as *name are not supported"),
        ("- seed", "run.yaml holds ['seed'], but must hold settings such as seed: 3"),
        ("seed 3", "run.yaml holds 'seed 3', but must hold settings such as seed: 3"),
        ("ppo: fast", "ppo is 'fast', but must be a section with settings like ppo.learning_rate"),
        ("ppo.clip: 0.1", "ppo.clip is not a key in a file; write clip below ppo:"),
        (
            "training.parallel.mode: sync",
            "training.parallel.mode is not a key in a file; "
            "write mode below training: and parallel:",
        ),
        (
            "training:\n  parallel.mode: sync",
            "parallel.mode is not a key in a file; write mode below parallel:",
        ),
        (
            "training.parallel:\n  mode: sync",
            "training.parallel is not a key in a file; write parallel below training:",
        ),
        (
            "training:\n  parallel:\n    mode: sync\n    mode: sync",
            "run.yaml: line 4: training.parallel.mode is given twice",
        ),
        (
            "training:\n  parallel:\n    worker_profiles:\n      - temperature: 1\n"
            "      - temperature: 1\n        temperature: 2",
            "run.yaml: line 6: training.parallel.worker_profiles[1].temperature is given twice",
        ),
        (
            "training:\n  parallel: fast",
            "training.parallel is 'fast', but must be a section with settings like "
            "training.parallel.enabled",
        ),
        (
            "training:\n  paralel:\n    mode: sync",
            "training.paralel is not a setting; did you mean training.parallel?",
        ),
        ("modle:\n  depth: 3", "modle is not a setting; did you mean model?"),
        ("games: {count: 1e2}", "games.count is 100.0, but must be a whole number, at least 1"),
    ],
)
def test_a_wrong_file_gets_one_sentence(refusal, text, sentence):
    assert refusal(text) == sentence


def test_a_missing_file_names_the_known_configurations(tmp_path, monkeypatch):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "mine.yaml").touch()
    monkeypatch.chdir(tmp_path)
    for source in ("yours", "yours.yaml", tmp_path / "yours.yaml"):
        with pytest.raises(
            ConfigError, match=r"yours.* is neither a YAML file nor .*known are.*mine"
        ):
            load_config(source)


def test_a_file_that_cannot_be_read_says_why(tmp_path, refusal):
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path)
    assert "is not text in UTF-8" in refusal(b"name: \xff\xfe")


@hypothesis_settings(deadline=None)
@given(st.text(max_size=40), st.text(max_size=20))
@example("ppo: {clip: &a *a}", "a\nb=1")
@example('name: "\\ud800"', 'name="\\ud800"')
def test_whatever_is_written_is_read_or_refused_in_one_line(text, override):
    for source, overrides in ((text, []), ("", [override, f"seed={override}"])):
        with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
            file.write(source.encode(errors="surrogatepass"))
            file.flush()
            message = ""
            try:
                load_config(file.name, overrides)
            except ConfigError as error:
                message = str(error)
            assert message.isprintable()
