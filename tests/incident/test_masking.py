"""What is copied out of a report holds no secret, and still says what happened."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat.incident.masking import masked


@pytest.mark.parametrize(
    "secret",
    [
        "hf_AbCdEfGhIjKlMnOpQrStUv",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "sk-proj-abcdefghijklmnopqrstuvwx",
        "AKIAABCDEFGHIJKLMNOP",
        "xoxb-123456789012-abcdefghij",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh",
    ],
)
@pytest.mark.parametrize(
    "around", ["{}", "token={}", "Authorization: Bearer {}", 'os.environ["X"] = "{}"', "--key {} --lr 1"]
)
def test_a_token_is_masked_wherever_it_stands(secret: str, around: str) -> None:
    assert secret not in masked(around.format(secret))


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "0123456789abcdef0123456789abcdef01234567"),
        ('{"password": "correct horse battery"}', "correct horse"),
        ("AWS_SECRET_ACCESS_KEY='wJalrXUtnFEMI/K7MDENG'", "wJalr"),
        ("--api-key 93fjw9f3jf93jf", "93fjw9f3jf93jf"),
        ("https://alice:hunter22@git.example.org/x.git", "hunter22"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\n-----END OPENSSH PRIVATE KEY-----", "b3BlbnNz"),
        ('File "/home/alice/train.py", line 3', "alice"),
        (r"C:\Users\alice\train.py", "alice"),
        ("/home/alice/x.py and /scratch/alice/run3/log", "alice"),
        ("/gpfs/home/alice_b/x.py", "alice_b"),
    ],
)
def test_secrets_with_a_name_and_names_of_users_are_masked(text: str, secret: str) -> None:
    assert secret not in masked(text)


@pytest.mark.parametrize(
    "text",
    [
        'File "train.py", line 14, in <module>',
        "pad_token = None, eos_token: '</s>', num_tokens: 4096",
        "KeyError: 'token'",
        "token ids of the batch: 128000",
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB",
        "the secret is missing",
        "/home/runner/work/x.py",
        "Expected hidden size (1, 4, 8), got [1, 2, 8]",
    ],
)
def test_what_a_failure_says_is_left_alone(text: str) -> None:
    assert masked(text) == text


@given(st.text(alphabet="abC:=/\\\"' \n_-tokenhmusrAPI09@.", max_size=200))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    once = masked(text)
    assert masked(once) == once
