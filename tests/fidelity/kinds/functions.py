"""Functions that cells define, and what they carry with them."""

from tests.fidelity.kinds.kind import Kind

FUNCTIONS = (
    Kind(
        "a function sees the live globals",
        """
        rate = 2


        def price(amount, *, tax: float = 0.5) -> float:
            "What it costs."
            return amount * rate + tax
        """,
        """
        assert price(3) == 6.5
        rate = 10
        assert price(3, tax=0) == 30
        assert price.__globals__ is globals() and price.__module__ == "__main__"
        assert price.__doc__ == "What it costs." and price.__annotations__ == {"tax": float, "return": float}
        """,
    ),
    Kind(
        "a function can be read",
        """
        def find_me():
            # a comment
            return 1
        """,
        """
        import inspect

        assert inspect.getsource(find_me) == "def find_me():\\n    # a comment\\n    return 1\\n"
        """,
    ),
    Kind(
        "defaults are mutable and shared",
        """
        seen = []


        def collect(item, into=seen, *, also=[]):
            into.append(item)
            also.append(item)
            return also
        """,
        """
        assert collect(1) == [1] and collect(2) == [1, 2]
        assert seen == [1, 2]
        """,
    ),
    Kind(
        "attributes of a function",
        """
        def counted():
            counted.calls += 1
            return counted.calls


        counted.calls = 41
        """,
        """
        assert counted() == 42
        """,
    ),
    Kind(
        "lambdas, also inside containers",
        """
        offset = 100
        shift = lambda x: x + offset
        operations = {"double": lambda x: x * 2, "shift": shift}
        """,
        """
        assert operations["double"](4) == 8 and operations["shift"] is shift
        offset = 0
        assert shift(1) == 1
        """,
    ),
    Kind(
        "closures that share a variable",
        """
        def counter():
            n = 0

            def up():
                nonlocal n
                n += 1
                return n

            def now():
                return n

            return up, now


        up, now = counter()
        up()
        """,
        """
        assert now() == 1
        up()
        assert now() == 2
        other_up, other_now = counter()
        assert other_now() == 0
        """,
    ),
    Kind(
        "recursion, plain, mutual and in a closure",
        """
        def even(n):
            return n == 0 or odd(n - 1)


        def odd(n):
            return n != 0 and even(n - 1)


        def maker():
            def fib(n):
                return n if n < 2 else fib(n - 1) + fib(n - 2)

            return fib


        fib = maker()
        """,
        """
        assert even(10) and odd(7) and fib(12) == 144
        """,
    ),
    Kind(
        "decorated functions",
        """
        import functools


        def logged(function):
            calls = []

            @functools.wraps(function)
            def wrapper(*args):
                calls.append(args)
                return function(*args)

            wrapper.calls = calls
            return wrapper


        @logged
        def add(a, b):
            return a + b


        add(1, 2)
        """,
        """
        assert add(3, 4) == 7 and add.calls == [(1, 2), (3, 4)] and add.__name__ == "add"
        assert add.__wrapped__(1, 1) == 2
        """,
    ),
    Kind(
        "a cached function",
        """
        import functools

        computed = []


        @functools.lru_cache(maxsize=8)
        def square(n):
            computed.append(n)
            return n * n


        square(3)
        """,
        """
        assert square(4) == 16 and 4 in computed
        assert square.cache_parameters() == {"maxsize": 8, "typed": False} and square.__name__ == "square"
        """,
    ),
    Kind(
        "single dispatch",
        """
        import functools


        @functools.singledispatch
        def describe(value):
            return "something"


        @describe.register
        def describe_int(value: int):
            return "a number"
        """,
        """
        assert describe("") == "something" and describe(True) == "a number" and describe_int(1) == "a number"
        """,
    ),
    Kind(
        "generator functions, async functions, context managers",
        """
        import asyncio
        import contextlib


        def three():
            yield from (1, 2, 3)


        async def answer():
            await asyncio.sleep(0)
            return 42


        @contextlib.contextmanager
        def opened(into):
            into.append("open")
            yield
            into.append("closed")
        """,
        """
        assert list(three()) == [1, 2, 3] and asyncio.run(answer()) == 42
        steps = []
        with opened(steps):
            steps.append("inside")
        assert steps == ["open", "inside", "closed"]
        """,
    ),
    Kind(
        "a function with free type names and positional-only arguments",
        """
        from typing import TypeVar

        T = TypeVar("T")


        def first(items: "list[T]", /, default: "T | None" = None) -> "T | None":
            return items[0] if items else default
        """,
        """
        import typing

        assert first([], 5) == 5 and first([1]) == 1
        assert typing.get_type_hints(first)["items"] == list[T]
        """,
    ),
    Kind(
        "built-in functions and methods of types",
        """
        biggest, joiner, sorter = max, str.join, list.sort
        """,
        """
        assert biggest is max and joiner is str.join and sorter is list.sort
        """,
    ),
    Kind(
        "functions and classes that a text made in a dict of its own",
        """
        import types

        kept, apart = {"log": []}, {}
        exec("def add(x):\\n    log.append(x)\\ndef same():\\n    return log\\nclass K:\\n    def log(self):\\n        return log", kept)
        add, same, log, k = kept["add"], kept["same"], kept["log"], kept["K"]()
        exec("items = []\\ndef put(x):\\n    items.append(x)\\ndef got():\\n    return items", apart)
        put, got, items = apart["put"], apart["got"], apart["items"]
        del apart
        bare = types.FunctionType(add.__code__, kept)
        """,
        """
        assert add.__globals__ is same.__globals__ is bare.__globals__ is kept and kept["add"] is add
        assert same() is log is kept["log"] is k.log() and type(k) is kept["K"] and type(k).__module__ == "builtins"
        assert put.__globals__ is got.__globals__ and got() is items
        add(1), put(2), bare(3)
        assert log[-2:] == [1, 3] and items[-1] == 2
        """,
    ),
)
