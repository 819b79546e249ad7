"""Ten realistic files with five questions each: the explanation answers every question."""

from __future__ import annotations

from pathlib import Path

import pytest

from wasmrt.capabilities.file import parse
from wasmrt.capabilities.sentences import ANYWHERE, explain

FOLDER = Path(__file__).with_name("realistic")
NO = "may not do anything else"

# The answer is a part of the explanation; an answer that starts with "not: " must not be in any sentence.
QUESTIONS = {
    "github": {
        "Can it read my private repositories?": "can read your repositories, private ones as well",
        "Can it write something as me?": "can write issues and comments as you (GitHub)",
        "Can it push, merge or delete?": "not: change your repositories",
        "In which repository can it open issues?": "may POST and PATCH https://api.github.com/repos/acme/site/issues",
        "How often can it ask?": "30 times a minute and 600 times an hour",
    },
    "gmail": {
        "Can it send mail in my name?": "can send mail as you (Gmail)",
        "Can it read all my mail?": "can read your mail (Gmail)",
        "Can it delete or move mail?": "not: delete",
        "Can my files end up in a mail?": "data that it reads under upload/ can go to gmail.googleapis.com",
        "What do I agree to at Google?": "as the client desk-client, to read your mail and send mail as you",
    },
    "weather": {
        "Does it use an account of mine?": "not: your secret",
        "Who learns the places that I ask for?": "its parameters can go to api.open-meteo.com and "
        "geocoding-api.open-meteo.com",
        "Can it send anything but questions?": "may GET https://api.open-meteo.com/v1/forecast (this path only)",
        "How long can a call take?": "may use 20 seconds for a call",
        "Can it read my files?": "may not read or write files",
    },
    "s3-upload": {
        "Can it overwrite files in the bucket?": "can store and replace files in your buckets (Amazon S3)",
        "Can it delete or list files there?": "not: delete",
        "Which of my files can leave?": "data that it reads under reports/ can go to "
        "acme-reports.s3.eu-central-1.amazonaws.com",
        "Does it see my access key?": "signed with your secret aws_key for s3 of AWS in eu-central-1",
        "How large can an upload be?": "at most 100 MiB out",
    },
    "slack-post": {
        "Who do its messages come from?": "can post messages as you, or as the app of your token (Slack)",
        "Can it read our messages?": "not: can read",
        "Can it use another function of Slack?": "may POST https://slack.com/api/chat.postMessage (this path only)",
        "How many messages can it send?": "10 times a minute and 100 times an hour",
        "Can it attach my files?": "may not read or write files",
    },
    "web-search": {
        "Which sites can it reach?": f"can reach {ANYWHERE}",
        "Can a site learn what I look for?": f"its parameters can go to {ANYWHERE}",
        "Can it fill in forms?": f"may GET at {ANYWHERE}",
        "Does it log in anywhere as me?": "not: your secret",
        "Where does it keep what it finds?": "may write files under pages/",
    },
    "pdf-to-text": {
        "Can my papers leave this machine?": "may not send anything over the network",
        "Which files does it read?": "may read files under papers/",
        "Can it change my PDF files?": "may write files under papers/text/",
        "How much memory may it take?": "256 MiB of memory",
        "How long may it work on one?": "2 minutes for a call",
    },
    "git-clone": {
        "Can it push?": "can push to your repositories (git at GitHub)",
        "Can it clone private repositories?": "can clone your repositories, private ones as well",
        "Whose repositories?": "https://github.com/acme/ and below",
        "Does it work without a token?": "with your secret github_token in the Authorization header as the password of "
        "'git' if it is set",
        "Can it remove files of mine?": "and remove existing files",
    },
    "calculator": {
        "Can it reach the network?": "may not send anything over the network",
        "Can it read or write files?": "read or write files",
        "Can it start other tools?": "call other tools",
        "How long may a calculation take?": "2 seconds for a call",
        "How much work is that?": "50 million units of fuel",
    },
    "notes": {
        "Which files does it read and change?": "may write files under notes/",
        "Can it delete old notes?": "not: remove existing files",
        "Does it learn a password?": "may ask whether these secrets are set, never what they are: notes_key",
        "Can my notes leave this machine?": "data that it reads under notes/ can go to the tool deepl",
        "Does it send anything itself?": "may not send anything over the network itself",
    },
}
ASKED = [(name, question, answer) for name, rest in QUESTIONS.items() for question, answer in rest.items()]


def test_there_are_ten_files_and_fifty_questions() -> None:
    assert {path.name.partition(".")[0] for path in FOLDER.iterdir()} == set(QUESTIONS)
    assert (len(QUESTIONS), len(ASKED)) == (10, 50)


@pytest.mark.parametrize(("name", "question", "answer"), ASKED)
def test_the_explanation_answers_the_question(name: str, question: str, answer: str) -> None:
    said = explain(parse((FOLDER / f"{name}.capabilities.json").read_bytes()).capabilities)

    assert said[-1] == NO
    text = "\n".join(said)
    if answer.startswith("not: "):
        assert answer.removeprefix("not: ") not in text, question
    else:
        assert answer in text, question
