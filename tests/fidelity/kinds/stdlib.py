"""Objects of the standard library that notebooks keep in variables."""

from tests.fidelity.kinds.kind import Kind

STDLIB = (
    Kind(
        "dates and times",
        """
        import datetime as dt
        from zoneinfo import ZoneInfo

        day = dt.date(2024, 2, 29)
        naive = dt.datetime(2024, 10, 27, 2, 30, 0, 123456)
        folded = dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
        fixed = dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=45), "NPT"))
        span = dt.timedelta(days=-1, microseconds=7)
        clock = dt.time(23, 59, tzinfo=dt.timezone.utc)
        """,
        """
        assert (day, naive, span) == (
            dt.date(2024, 2, 29),
            dt.datetime(2024, 10, 27, 2, 30, 0, 123456),
            dt.timedelta(days=-1, microseconds=7),
        )
        assert folded.fold == 1 and folded.tzinfo is ZoneInfo("Europe/Berlin")
        assert folded.utcoffset() == dt.timedelta(hours=1)
        assert fixed.tzname() == "NPT" and fixed.utcoffset() == dt.timedelta(hours=5, minutes=45)
        assert clock.tzinfo is dt.timezone.utc
        """,
    ),
    Kind(
        "paths",
        """
        from pathlib import Path, PurePosixPath, PureWindowsPath

        here, posix, windows = Path("data/raw.csv"), PurePosixPath("/a/b"), PureWindowsPath("C:/x")
        """,
        """
        assert here == Path("data/raw.csv") and posix == PurePosixPath("/a/b") and windows.drive == "C:"
        """,
    ),
    Kind(
        "identifiers and addresses",
        """
        import ipaddress
        import uuid

        key = uuid.UUID("12345678-1234-5678-1234-567812345678")
        net = ipaddress.ip_network("10.0.0.0/8")
        """,
        """
        assert key.hex == "12345678123456781234567812345678"
        assert ipaddress.ip_address("10.1.2.3") in net
        """,
    ),
    Kind(
        "regular expressions and a match",
        """
        import re

        pattern = re.compile(r"(?P<word>\\w+) (\\d+)", re.IGNORECASE)
        match = pattern.search("see: Abc 12, Def 34", 2)
        """,
        """
        assert pattern.pattern == r"(?P<word>\\w+) (\\d+)" and pattern.flags & re.IGNORECASE
        assert match.groupdict() == {"word": "Abc"} and match.span(2) == (9, 11) and match.pos == 2
        """,
    ),
    Kind(
        "text and byte buffers keep their place",
        """
        import io

        text = io.StringIO("one\\ntwo\\n")
        text.readline()
        data = io.BytesIO(b"abc")
        data.seek(1)
        """,
        """
        assert text.readline() == "two\\n" and text.getvalue() == "one\\ntwo\\n"
        assert data.read() == b"bc"
        data.write(b"d")
        assert data.getvalue() == b"abcd"
        """,
    ),
    Kind(
        "a database in memory",
        """
        import sqlite3

        db = sqlite3.connect(":memory:")
        db.execute("create table t (a integer, b text)")
        db.executemany("insert into t values (?, ?)", [(1, "x"), (2, "y")])
        db.commit()
        """,
        """
        assert db.execute("select * from t order by a").fetchall() == [(1, "x"), (2, "y")]
        db.execute("insert into t values (3, 'z')")
        assert db.execute("select count(*) from t").fetchone() == (3,)
        """,
    ),
    Kind(
        "rows of a database that know their columns",
        """
        import sqlite3

        db = sqlite3.connect(":memory:")
        db.row_factory = sqlite3.Row
        rows = db.execute("select 1 as a, 'x' as \"b \"\"c\"\"\", null as a, 2.5 as \"\"").fetchall()
        table = {"first": rows[0], "plain": db.execute("select 1").fetchone()}
        """,
        """
        assert rows[0].keys() == ["a", 'b "c"', "a", ""] and tuple(rows[0]) == (1, "x", None, 2.5)
        assert rows[0]['b "c"'] == "x" and rows[0]["A"] == 1 and type(rows[0]) is sqlite3.Row
        assert table["first"] == rows[0] and hash(table["first"]) == hash(rows[0]) and table["plain"][0] == 1
        """,
    ),
    Kind(
        "compiled formats of bytes",
        """
        import struct

        header = struct.Struct("<IH4s")
        fields = [header, struct.Struct(b">d")]
        """,
        """
        assert header.size == 10 and header.pack(1, 2, b"ab") == b"\\1\\0\\0\\0\\2\\0ab\\0\\0"
        assert fields[0].format == header.format and fields[1].unpack(bytes(8)) == (0.0,)
        """,
    ),
    Kind(
        "weak references to values that have names",
        """
        import weakref


        class Node:
            pass


        node = Node()
        ref = weakref.ref(node)
        by_name = weakref.WeakValueDictionary(n=node)
        notes = weakref.WeakKeyDictionary({node: "note"})
        alive = weakref.WeakSet([node])
        """,
        """
        assert ref() is node and by_name["n"] is node and notes[node] == "note" and node in alive
        del node
        import gc

        gc.collect()
        assert ref() is None and len(by_name) == 0 and len(alive) == 0
        """,
    ),
    Kind(
        "a proxy to a named value",
        """
        import weakref


        class Thing:
            size = 3


        thing = Thing()
        proxy = weakref.proxy(thing)
        """,
        """
        assert proxy.size == 3
        thing.size = 4
        assert proxy.size == 4
        """,
    ),
    Kind(
        "partials and operator functions",
        """
        import functools
        import operator

        rows = []
        add_row = functools.partial(rows.append, {"a": 1})
        base_two = functools.partial(int, base=2)
        getters = [operator.itemgetter(1, 0), operator.attrgetter("real.imag"), operator.methodcaller("split", ",")]
        """,
        """
        add_row()
        assert rows == [{"a": 1}] and base_two("101") == 5 and base_two.keywords == {"base": 2}
        assert getters[0]("ab") == ("b", "a") and getters[1](2j) == 0.0 and getters[2]("a,b") == ["a", "b"]
        """,
    ),
    Kind(
        "bound methods of values that have names",
        """
        basket = []
        put = basket.append
        upper = "abc".upper
        """,
        """
        put(1)
        assert basket == [1] and upper() == "ABC"
        """,
    ),
    Kind(
        "a generator of random numbers",
        """
        import random

        dice = random.Random(7)
        dice.random()
        """,
        """
        same = random.Random(7)
        same.random()
        assert [dice.randint(1, 6) for _ in range(20)] == [same.randint(1, 6) for _ in range(20)]
        assert dice.gauss(0, 1) == same.gauss(0, 1)
        """,
    ),
    Kind(
        "exceptions with notes, causes and groups",
        """
        problem = ValueError("bad", 3)
        problem.add_note("row 7")
        problem.__cause__ = KeyError("k")
        many = ExceptionGroup("several", [problem, TypeError("t")])
        missing = FileNotFoundError(2, "No such file", "x.csv")
        """,
        """
        assert problem.args == ("bad", 3) and problem.__notes__ == ["row 7"]
        assert many.message == "several" and many.exceptions[0] is problem
        assert missing.filename == "x.csv" and missing.errno == 2
        """,
    ),
    Kind(
        "modules come back as themselves",
        """
        import json as j
        import os.path as osp
        import xml.etree.ElementTree as ET

        tools = {"json": j}
        """,
        """
        import sys

        assert j is sys.modules["json"] and tools["json"] is j
        assert osp is sys.modules["os.path"] and ET is sys.modules["xml.etree.ElementTree"]
        """,
    ),
    Kind(
        "an XML tree and a configuration",
        """
        import configparser
        import xml.etree.ElementTree as ET

        tree = ET.fromstring("<a x='1'><b>text</b></a>")
        leaf = tree[0]
        config = configparser.ConfigParser()
        config.read_string("[main]\\nsize = 3\\n")
        """,
        """
        assert ET.tostring(tree) == b'<a x="1"><b>text</b></a>' and tree[0] is leaf
        assert config.getint("main", "size") == 3
        """,
    ),
    Kind(
        "little helpers",
        """
        import argparse
        import statistics
        import string
        import struct

        args = argparse.Namespace(lr=0.1, tags=["a"])
        normal = statistics.NormalDist(1, 2)
        template = string.Template("hi $name")
        """,
        """
        assert args == argparse.Namespace(lr=0.1, tags=["a"]) and normal == statistics.NormalDist(1, 2)
        assert template.substitute(name="you") == "hi you"
        """,
    ),
    Kind(
        "a logger is the logger of that name",
        """
        import logging

        log = logging.getLogger("study.clean")
        """,
        """
        assert log is logging.getLogger("study.clean")
        """,
    ),
    Kind(
        "priority queues and ring buffers",
        """
        import heapq

        heap = []
        for cost, job in [(5, "e"), (1, "a"), (3, "c")]:
            heapq.heappush(heap, (cost, job))
        """,
        """
        assert [heapq.heappop(heap) for _ in range(3)] == [(1, "a"), (3, "c"), (5, "e")]
        """,
    ),
)
