"""Containers: their contents, their order, and who shares what with whom."""

from tests.fidelity.kinds.kind import Kind

CONTAINERS = (
    Kind(
        "nested lists that share a part",
        """
        shared = [1, 2]
        outer = [shared, {"again": shared}, (shared,)]
        """,
        """
        assert outer[0] is shared and outer[1]["again"] is shared and outer[2][0] is shared
        shared.append(3)
        assert outer == [[1, 2, 3], {"again": [1, 2, 3]}, ([1, 2, 3],)]
        """,
    ),
    Kind(
        "two names for one list",
        """
        first = ["a"]
        second = first
        """,
        """
        assert first is second
        second.append("b")
        assert first == ["a", "b"]
        """,
    ),
    Kind(
        "equal lists that are not one",
        """
        left, right = [1], [1]
        """,
        """
        assert left == right and left is not right
        """,
    ),
    Kind(
        "a name for the middle of another value",
        """
        config = {"model": {"layers": [64, 32]}}
        layers = config["model"]["layers"]
        """,
        """
        assert config["model"]["layers"] is layers
        layers[0] = 128
        assert config == {"model": {"layers": [128, 32]}}
        """,
    ),
    Kind(
        "three names chained by what they share",
        """
        a = []
        b = [a]
        c = {"a": a}
        """,
        """
        assert b[0] is a and c["a"] is a
        """,
    ),
    Kind(
        "a list that holds itself",
        """
        loop = [1]
        loop.append(loop)
        """,
        """
        assert loop[1] is loop and len(loop) == 2
        """,
    ),
    Kind(
        "a parent and a child that know each other",
        """
        parent = {"name": "root", "children": []}
        child = {"name": "leaf", "parent": parent}
        parent["children"].append(child)
        """,
        """
        assert child["parent"] is parent and parent["children"][0] is child
        """,
    ),
    Kind(
        "a cycle through a tuple",
        """
        inner = []
        ring = (inner,)
        inner.append(ring)
        """,
        """
        assert ring[0] is inner and inner[0] is ring
        """,
    ),
    Kind(
        "tuples stay tuples",
        """
        points = ((1, 2), [(3, 4)], {"k": (5, ())})
        """,
        """
        assert points == ((1, 2), [(3, 4)], {"k": (5, ())})
        assert type(points) is tuple and type(points[1][0]) is tuple and type(points[2]["k"]) is tuple
        """,
    ),
    Kind(
        "sets and frozen sets",
        """
        seen = {1, "a", (2, 3), frozenset({4})}
        fixed = frozenset({"x", "y"})
        """,
        """
        assert seen == {1, "a", (2, 3), frozenset({4})} and fixed == frozenset({"x", "y"})
        seen.add(9)
        assert 9 in seen
        """,
    ),
    Kind(
        "a dict keeps its order and odd keys",
        """
        table = {(1, 2): "t", None: 0, 2.5: [], b"k": {}, frozenset(): ...}
        """,
        """
        assert list(table) == [(1, 2), None, 2.5, b"k", frozenset()]
        assert list(table.values()) == ["t", 0, [], {}, ...]
        """,
    ),
    Kind(
        "a deque with a bound",
        """
        from collections import deque

        recent = deque([1, 2, 3], maxlen=3)
        """,
        """
        recent.append(4)
        assert list(recent) == [2, 3, 4] and recent.maxlen == 3
        """,
    ),
    Kind(
        "default dicts, one with a lambda",
        """
        from collections import defaultdict

        groups = defaultdict(list, {"a": [1]})
        scores = defaultdict(lambda: defaultdict(int))
        scores["x"]["y"] += 1
        """,
        """
        groups["b"].append(2)
        assert groups == {"a": [1], "b": [2]}
        scores["new"]["z"] += 5
        assert scores == {"x": {"y": 1}, "new": {"z": 5}}
        """,
    ),
    Kind(
        "ordered dicts, counters and chain maps",
        """
        from collections import ChainMap, Counter, OrderedDict

        ordered = OrderedDict(a=1, b=2, c=3)
        ordered.move_to_end("a")
        letters = Counter("banana")
        defaults = {"colour": "red"}
        chain = ChainMap({}, defaults)
        """,
        """
        assert list(ordered) == ["b", "c", "a"]
        ordered.move_to_end("b")
        assert list(ordered) == ["c", "a", "b"]
        assert letters.most_common(1) == [("a", 3)]
        assert chain.maps[1] is defaults and chain["colour"] == "red"
        """,
    ),
    Kind(
        "user containers of the standard library",
        """
        from collections import UserDict, UserList

        ud, ul = UserDict(a=[1]), UserList([1, 2])
        """,
        """
        assert ud == {"a": [1]} and ul == [1, 2]
        ul.append(3)
        assert ul.data == [1, 2, 3]
        """,
    ),
    Kind(
        "subclasses of list and dict with attributes",
        """
        class Rows(list):
            def total(self):
                return sum(self)


        class Settings(dict):
            def __getattr__(self, key):
                return self[key]


        rows = Rows([1, 2])
        rows.label = "mine"
        settings = Settings(depth=3)
        """,
        """
        assert type(rows) is Rows and rows == [1, 2] and rows.total() == 3 and rows.label == "mine"
        assert type(settings) is Settings and settings.depth == 3
        """,
    ),
    Kind(
        "a list subclass whose append needs its attributes",
        """
        class Audited(list):
            def __init__(self):
                self.log = []

            def append(self, item):
                self.log.append(item)
                super().append(item)


        audited = Audited()
        audited.append(4)
        """,
        """
        assert audited == [4] and audited.log == [4]
        audited.append(5)
        assert audited == [4, 5] and audited.log == [4, 5]
        """,
    ),
    Kind(
        "a read-only view of a dict that has a name",
        """
        from types import MappingProxyType

        settings = {"a": 1}
        frozen = MappingProxyType(settings)
        """,
        """
        settings["b"] = 2
        assert frozen == {"a": 1, "b": 2}
        """,
    ),
    Kind(
        "simple namespaces",
        """
        from types import SimpleNamespace

        options = SimpleNamespace(depth=2, inner=SimpleNamespace(items=[1]))
        items = options.inner.items
        """,
        """
        assert options == SimpleNamespace(depth=2, inner=SimpleNamespace(items=[1]))
        assert options.inner.items is items
        """,
    ),
    Kind(
        "many small records",
        """
        records = [{"id": i, "name": f"n{i}", "tags": ["x", str(i % 7)]} for i in range(5_000)]
        """,
        """
        assert records == [{"id": i, "name": f"n{i}", "tags": ["x", str(i % 7)]} for i in range(5_000)]
        records[17]["tags"].append("new")
        assert [len(row["tags"]) for row in records[16:19]] == [2, 3, 2]
        """,
    ),
    Kind(
        "many small records that share, far apart",
        """
        owner = {"name": "one"}
        rows = [{"id": i, "owner": None} for i in range(6_000)]
        rows[3]["owner"] = rows[5_990]["owner"] = owner
        rows.append(rows[0])
        """,
        """
        assert rows[3]["owner"] is rows[5_990]["owner"] is owner
        assert rows[6_000] is rows[0] and len(rows) == 6_001
        """,
    ),
    Kind(
        "a long list whose rows point back at it",
        """
        nodes = [{"id": i} for i in range(3_000)]
        nodes[2_999]["all"] = nodes
        """,
        """
        assert nodes[2_999]["all"] is nodes and nodes[2_998] == {"id": 2_998}
        """,
    ),
    Kind(
        "a big dict of lists and a big set",
        """
        index = {f"key{i}": [i, -i] for i in range(4_000)}
        ids = set(range(20_000))
        """,
        """
        assert index == {f"key{i}": [i, -i] for i in range(4_000)} and list(index)[3_999] == "key3999"
        assert ids == set(range(20_000))
        """,
    ),
    Kind(
        "deep nesting",
        """
        deep = []
        for level in range(400):
            deep = [deep]
        """,
        """
        depth, here = 0, deep
        while here:
            depth, here = depth + 1, here[0]
        assert depth == 400
        """,
    ),
    Kind(
        "iterators that are half-way",
        """
        import itertools

        source = [1, 2, 3, 4]
        it = iter(source)
        next(it)
        numbers = itertools.count(10, 5)
        next(numbers)
        pairs = zip("abc", range(3))
        next(pairs)
        """,
        """
        assert next(it) == 2 and it.__reduce__()[1][0] is source
        assert next(numbers) == 15
        assert next(pairs) == ("b", 1) and list(pairs) == [("c", 2)]
        """,
    ),
)
