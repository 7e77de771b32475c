"""What looks like a secret in code, errors and messages is not shown."""

from __future__ import annotations

import pytest

from agent_kernel.values.previews import MASK, mask_code, mask_text
from agent_kernel.values.previews.redaction import lexemes

TOKENS = [
    "sk-proj-abcdefghijklmnop",
    "ghp_" + "a1" * 18,
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-1234567890-abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "hf_abcdefghijklmnopqrst",
]
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "source",
    [
        "api_key = 'SECRET99'",
        'password="SECRET99"',
        "token: str = 'SECRET99'",
        "self.db_password = 'SECRET99'",
        "client = OpenAI(model='gpt', api_key='SECRET99')",
        "os.environ['API_KEY'] = 'SECRET99'",
        "headers = {'Authorization': 'SECRET99'}",
        "user, password = 'me', 'SECRET99'",
        "auth = ('me', 'SECRET99')",
        "secret = (\n    'abc'\n    'SECRET99'\n)",
        "passwd = b'SECRET99'.decode()",
        "if password == 'SECRET99': pass",
        "secret = os.getenv('NAME', 'SECRET99')",
        "def login(password='SECRET99'): ...",
        "if (token := 'SECRET99'): pass",
        "key = 'unterminated\npassword = 'SECRET99",
        "# password: SECRET99",
        "%env DB_PASSWORD=SECRET99",
        "!curl -H 'Authorization: Bearer SECRET99SECRET99'",
        "%%bash\nexport PASSWORD=SECRET99",
        "%%agent ada\npassword = 'SECRET99'",
        "engine = create_engine('postgres://me:SECRET99@db/x')",
        "password = f'''SECRET99\n{x}'''",
        "password = 'SECRET99'\nlogin('SECRET99')",
        "pin_password = 99990000  # SECRET-free",
    ],
)
def test_a_secret_in_code_is_masked(source: str) -> None:
    shown, _ = mask_code(source)
    assert "SECRET99" not in shown
    assert "99990000" not in shown
    assert MASK in shown


@pytest.mark.parametrize("secret", [*TOKENS, PEM])
def test_a_well_known_shape_is_masked_wherever_it_stands(secret: str) -> None:
    for text in (f"x = f('{secret}')", f"ValueError: cannot use {secret} here", f'"""{secret}"""'):
        assert secret not in mask_text(text)
        assert secret[8:] not in mask_text(text)
        assert secret[8:] not in mask_code(text)[0]


@pytest.mark.parametrize(
    "source",
    [
        "x = 'abc'; n_tokens = 4000; author = 'me'",
        "tokens = text.split(' ')",
        "password = getpass('Password: ')",
        "key = os.environ['OPENAI_API_KEY']",
        "secret = os.getenv('SECRET_NAME')",
        "connect(password=password, token=self.token)",
        "print(f'token={token}')",
        "api_key = keys['openai']",
        "df = df.sort_values('key').merge(other, on='key')",
        "auth = None; token = ''",
        "broken = (\n'never closed'",
    ],
)
def test_code_without_a_secret_is_shown_as_it_was_typed(source: str) -> None:
    assert mask_code(source) == (source, frozenset())


def test_what_a_cell_gave_away_is_masked_in_its_error_too() -> None:
    shown, hidden = mask_code("password = 'hunter2'\nlogin(password)")
    assert shown == f"password = '{MASK}'\nlogin(password)"
    assert mask_text("LoginError: 'hunter2' is wrong", hidden) == f"LoginError: '{MASK}' is wrong"


def test_masking_again_changes_nothing() -> None:
    shown, _ = mask_code("password = 'hunter2'  # token: abcdefgh")
    assert mask_code(shown)[0] == shown


@pytest.mark.parametrize("source", ["x = 1", "'''open", 'f("a\\"b") # c\n\t%magic', "é = 'ü'\\\n+ 1\r\n", "\0\x1b'"])
def test_the_pieces_of_code_are_the_code(source: str) -> None:
    assert "".join(piece.text for piece in lexemes(source)) == source


def test_a_name_may_be_declared_secret() -> None:
    assert mask_code("thing = 'abcdef'", frozenset(["thing"])) == (f"thing = '{MASK}'", frozenset(["abcdef"]))


def test_long_cells_take_milliseconds() -> None:
    import time

    source = "password = 'hunter22'\n" + "x = foo(bar, 'text', [1, 2, {'a': b}])  # note\n" * 2_000
    began = time.perf_counter()
    mask_code(source)
    assert time.perf_counter() - began < 2
    began = time.perf_counter()
    mask_code("password = '''" + '"' * 50_000)
    mask_code("token = " + "(" * 20_000 + "'" * 20_001)
    assert time.perf_counter() - began < 2
