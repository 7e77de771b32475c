"""What looks like a secret is masked, by its name or by its text."""

from __future__ import annotations

from typing import Any

import pytest

from agent_kernel.values.previews import MASK, Column, encode, line, make_preview, names_a_secret
from tests.values.previewed import told

np: Any = pytest.importorskip("numpy")
pd: Any = pytest.importorskip("pandas")

KEY = "sk-" + "abcdEFGH1234" * 3
TOKEN = "ghp_" + "a1B2c3D4e5" * 4

TELLING = (
    "password db_password PASSWD mysqlPwd OPENAI_API_KEY apiKey access_token authToken client_secret private_key "
    "AWS_SECRET_ACCESS_KEY ssh_key smtp_pass credentials Authorization cookie api_tokens token "
    "otp otp_code pin_code pinCode pass Passwort passwort mot_de_passe contraseña contrasena パスワード 密码 senha wachtwoord "
    "openai_key creds slack_webhook webhook_url jwt ssn wifi_key kennwort"
)
EVERYDAY = (
    "tokens n_tokens max_tokens tokenizer author keyboard monkey compass secretary key token_count x "
    "password_strength auth_rate cookies_sold cookie_recipe api_key_name password_hash_algo secrets_found password_hint "
    "passwords_df_rows pin_codes_count motion opinion passed bypass pass_rate optical "
    "sort_key primary_key foreign_keys webhook_count classname"
)


@pytest.mark.parametrize("name", TELLING.split())
def test_a_value_under_a_telling_name_is_masked(name: str) -> None:
    assert names_a_secret(name)
    for value in ("hunter2", 1234, ["hunter2"], {"x": "hunter2"}, b"hunter2", {"hunter2"}, np.array(["hunter2"])):
        shown = make_preview(value, name)
        assert shown.masked
        assert b"hunter2" not in encode(shown)
        assert b"1234" not in encode(shown)
    assert told("hunter2", name) == f"str {MASK}"


@pytest.mark.parametrize("name", EVERYDAY.split())
def test_an_everyday_name_is_not_masked(name: str) -> None:
    assert not names_a_secret(name)
    assert told(7, name) == "int 7"


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        TOKEN,
        "AKIA" + "ABCDEFGHIJKLMNOP",
        "AIza" + "a1B2c3D4e5" * 4,
        "xoxb-123456789-abcdef",
        "123456789:AAabcdefghijklmnopqrstuvwxyzABCDEFG",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
        "postgres://me:hunter2@db.example/x",
        "https://hooks.slack.com/services/T0001/B0001/abcdefghijkl",
        "https://discord.com/api/webhooks/123456/abcdefGHIJKL-xyz",
        "https://x.blob.core.windows.net/c?sv=1&sig=abcdefghijklmnop%3D",
        "curl -s -u ann:hunter2x https://example.org",
        "dapi" + "a1" * 16,
        "dop_v1_" + "ab" * 32,
        "Authorization: Bearer abcdef0123456789",
        'config = {"password": "hunter2"}',
        "export API_KEY=abcdef",
        "sk-\x1b[31mabcdEFGH1234abcdEFGH",
        "x" * 90 + " " + TOKEN,
    ],
)
def test_a_text_that_looks_like_a_secret_is_masked_wherever_it_lies(text: str) -> None:
    frame = pd.DataFrame({"note": [text], "n": [1]})
    for value in (text, text.encode(), [text], {"k": text}, {text: 1}, (1, [text]), frame, pd.Series([text]), {text}):
        stored = encode(make_preview(value))
        for part in (text, text[:20], text[-8:], "hunter2"):
            assert part.encode() not in stored
        assert make_preview(value).masked


def test_an_ordinary_text_is_not_masked() -> None:
    for text in ("https://example.org/a?b=c", "a-b_c: d=e", "risk-averse-people-are-here", "the token is nice"):
        assert told(text) == f"str {text!r}"


def test_entries_columns_and_parameters_under_telling_names_are_masked() -> None:
    shown = make_preview({"user": "bob", "password": "hunter2"})
    assert shown.columns == (Column("'user'", "'bob'"), Column("'password'", MASK))
    frame = make_preview(pd.DataFrame({"user": ["bob"], "api_key": ["hunter2"]}))
    assert frame.rows == (("'bob'", MASK),)
    assert line(frame).startswith("DataFrame 1 × 2")
    assert "hunter2" not in told(("password", "hunter2"))
    assert "hunter2" not in told([("password", "hunter2")])
    assert "hunter2" not in told({"name": "password", "value": "hunter2"})
    assert "hunter2" not in str(make_preview(pd.DataFrame({"key": ["password"], "value": ["hunter2"]})))
    assert told(pd.Series(["hunter2"], name="password")).endswith(MASK)
