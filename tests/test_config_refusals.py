"""The one sentence for each way that overrides of a configuration can be wrong."""

import pytest


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        (
            "ppo.learning_rat=3",
            "ppo.learning_rat is not a setting; did you mean ppo.learning_rate?",
        ),
        ("learning_rate=3", "learning_rate is not a setting; did you mean ppo.learning_rate?"),
        ("pp.clip=3", "pp.clip is not a setting; did you mean ppo.clip?"),
        ("ppo.keep=3", "ppo.keep is not a setting; did you mean checkpoints.keep?"),
        ("seed.x=3", "seed.x is not a setting; did you mean seed?"),
        ("ppo.clip.x=3", "ppo.clip.x is not a setting; did you mean ppo.clip?"),
        (
            "interval=3",
            "interval is not a setting; did you mean checkpoints.interval or evaluation.interval?",
        ),
        (
            "checkpoints.qqq=3",
            "checkpoints.qqq is not a setting; known are checkpoints.interval, checkpoints.keep",
        ),
        ("games.count=0", "games.count is 0, but must be at least 1"),
        ("ppo.learning_rate=0", "ppo.learning_rate is 0, but must be above 0"),
        ("model.depth=81", "model.depth is 81, but must be at most 80"),
        ("ppo.clip=1", "ppo.clip is 1, but must be below 1"),
        (
            "model.features=core47",
            "model.features is 'core47', but must be one of core46, attack, tactics",
        ),
        ("games.count=64.0", "games.count is 64.0, but must be a whole number, at least 1"),
        ("games.count=true", "games.count is true, but must be a whole number, at least 1"),
        ("games.count=yes", "games.count is 'yes', but must be a whole number, at least 1"),
        ("games.count='64'", "games.count is '64', but must be a whole number, at least 1"),
        ("games.count=", "games.count is empty, but must be a whole number, at least 1"),
        ("games.count={}", "games.count is {}, but must be a whole number, at least 1"),
        ("ppo.clip=false", "ppo.clip is false, but must be a number, above 0, below 1"),
        ("ppo.max_grad_norm=.inf", "ppo.max_grad_norm is '.inf', but must be a number, above 0"),
        ("ppo.max_grad_norm=1e999", "ppo.max_grad_norm is '1e999', but must be a number, above 0"),
        ("training.compile=yes", "training.compile is 'yes', but must be true or false"),
        ("training.compile=1", "training.compile is 1, but must be true or false"),
        (
            "runs_folder=2024",
            "runs_folder is 2024, but must be text, length 1 or more; put it in quotes",
        ),
        ("runs_folder=''", "runs_folder is '', but must be text, length 1 or more"),
        ("games.declaration=25", "games.declaration is 25, but must be one of off, 24, 27"),
        (
            "evaluation.opponents=[random, 3, 4]",
            "evaluation.opponents[1] is 3, but must be text; put it in quotes (and 1 more)",
        ),
        (
            "evaluation.opponents=[]",
            "evaluation.opponents is [], but must be a list of 1 or more, each text",
        ),
        (
            "evaluation.opponents=random",
            "evaluation.opponents is 'random', but must be a list of 1 or more, each text",
        ),
        ("ppo=3", "ppo is 3, but must be a section with settings like ppo.learning_rate"),
        ("ppo=", "ppo is empty, but must be a section with settings like ppo.learning_rate"),
        ("seed", "'seed' must be key=value, such as ppo.learning_rate=3e-4"),
        ("=3", "'=3' must be key=value, such as ppo.learning_rate=3e-4"),
        ("seed=[", "'seed=[': expected the node content, but found '<stream end>'"),
        ("ppo={clip: 1, clip: 2}", "'ppo={clip: 1, clip: 2}': ppo.clip is given twice"),
    ],
)
def test_a_wrong_override_gets_one_sentence(refusal, override, sentence):
    assert refusal("", override) == sentence


def test_of_several_errors_the_first_in_the_schema_is_told_and_the_others_counted(refusal):
    text = "logging: 3\nppo:\n  clip: 2\n  gama: 1\ngames:\n  count: 0\n"
    assert refusal(text) == "games.count is 0, but must be at least 1 (and 3 more)"
    assert refusal(text, "games.count=1", "ppo.clip=0.1") == (
        "ppo.gama is not a setting; did you mean ppo.gamma? (and 1 more)"
    )
    assert refusal("seed: -1", "sede=3") == "sede is not a setting; did you mean seed? (and 1 more)"


def test_a_section_given_a_plain_value_stays_wrong_when_its_settings_are_overridden(refusal):
    assert refusal("ppo: 3", "ppo.clip=0.1").startswith("ppo is 3, but must be a section")


def test_long_values_are_shortened(refusal):
    assert len(refusal("", "model.features=" + "x" * 10_000)) < 200
    assert len(refusal("", "seed=" + "9" * 10_000)) < 200
    assert len(refusal("", "x" * 10_000 + "=3")) < 300
    profile = f"{{{'x' * 1000}: 3}}"
    assert len(refusal("", f"training.parallel.worker_profiles=[{profile}]")) < 300
    assert len(refusal("", f"training.parallel.worker_profiles={profile}")) < 300
