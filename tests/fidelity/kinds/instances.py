"""Instances of classes that cells define."""

from tests.fidelity.kinds.kind import Kind

INSTANCES = (
    Kind(
        "a class that says how it is pickled",
        """
        class Connection:
            def __init__(self, url):
                self.url = url
                self.socket = lambda: None
                self.uses = [1]

            def __getstate__(self):
                return {"url": self.url, "uses": self.uses}

            def __setstate__(self, state):
                self.__dict__.update(state)
                self.socket = None


        class Reduced:
            def __init__(self, n):
                self.n = n

            def __reduce__(self):
                return (Reduced, (self.n,))


        connection, reduced = Connection("db://x"), Reduced(5)
        """,
        """
        assert connection.url == "db://x" and connection.uses == [1]
        assert type(connection) is Connection and type(reduced) is Reduced and reduced.n == 5
        """,
    ),
    Kind(
        "instances in their own class, and cycles of instances",
        """
        class Registry:
            items = []

            def __init__(self, parent=None):
                self.parent = parent
                Registry.items.append(self)


        root = Registry()
        leaf = Registry(root)
        root.leaf = leaf
        """,
        """
        assert Registry.items[0] is root and Registry.items[1] is leaf
        assert leaf.parent is root and root.leaf is leaf
        """,
    ),
    Kind(
        "singletons that give the name of a variable for themselves",
        """
        import copyreg


        class Missing:
            def __reduce__(self):
                return "MISSING"


        class Settings(dict):
            __slots__ = ("source",)

            def __reduce__(self):
                return "Settings.shared"


        class Registered:
            pass


        copyreg.pickle(Registered, lambda _: "registered")
        MISSING, registered = Missing(), Registered()
        MISSING.notes, registered.notes = [1], [2]
        Settings.shared = settings = Settings(depth=[3])
        settings.source = MISSING


        def find(key=MISSING):
            return key is MISSING


        held = [MISSING, {"registered": registered}]
        """,
        """
        assert held[0] is MISSING is settings.source and held[1]["registered"] is registered and find()
        assert Settings.shared is settings and settings == {"depth": [3]}
        assert MISSING.notes == [1] and registered.notes == [2]
        """,
    ),
    Kind(
        "instances as keys of dicts and sets",
        """
        class Token:
            pass


        token = Token()
        weights = {token: 1.5}
        tokens = {token}
        """,
        """
        assert weights[token] == 1.5 and token in tokens
        """,
    ),
    Kind(
        "an old instance keeps its old class",
        """
        class Model:
            version = 1

            def predict(self):
                return "old"


        old = Model()


        class Model:
            version = 2

            def predict(self):
                return "new"


        new = Model()
        """,
        """
        assert (old.predict(), old.version, new.predict(), new.version) == ("old", 1, "new", 2)
        assert type(new) is Model and type(old) is not Model and type(old).__name__ == "Model"
        """,
    ),
    Kind(
        "nested classes and classes made by functions",
        """
        class Outer:
            class Inner:
                value = 3


        def make(n):
            class Local:
                def get(self):
                    return n

            return Local


        inner = Outer.Inner()
        local = make(5)()
        """,
        """
        assert type(inner) is Outer.Inner and inner.value == 3 and local.get() == 5
        """,
    ),
    Kind(
        "exceptions that a cell defines",
        """
        class RowError(ValueError):
            def __init__(self, message, *, row=0):
                super().__init__(message)
                self.row = row


        error = RowError("bad", row=7)
        """,
        """
        assert type(error) is RowError and error.args == ("bad",) and error.row == 7
        """,
    ),
    Kind(
        "operators and containers by protocol",
        """
        class Vector:
            def __init__(self, *v):
                self.v = list(v)

            def __add__(self, other):
                return Vector(*(a + b for a, b in zip(self.v, other.v)))

            def __eq__(self, other):
                return self.v == other.v

            def __hash__(self):
                return hash(tuple(self.v))

            def __len__(self):
                return len(self.v)

            def __getitem__(self, i):
                return self.v[i]


        vector = Vector(1, 2)
        """,
        """
        assert vector + vector == Vector(2, 4) and len(vector) == 2 and list(vector) == [1, 2]
        """,
    ),
)
