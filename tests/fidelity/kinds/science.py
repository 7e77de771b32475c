"""Figures, graphs and formulas."""

from tests.fidelity.kinds.kind import Kind

SCIENCE = (
    Kind(
        "a figure and its axes",
        """
        import matplotlib

        matplotlib.use("agg")
        from matplotlib import pyplot as plt

        figure, axes = plt.subplots()
        (line,) = axes.plot([1, 2, 3], [3, 1, 2], label="run")
        axes.set_title("losses")
        plt.close(figure)
        """,
        """
        assert figure.axes[0] is axes and axes.lines[0] is line and axes.get_title() == "losses"
        assert line.get_ydata().tolist() == [3, 1, 2]
        axes.plot([1], [1])
        import io

        figure.savefig(io.BytesIO())
        """,
        needs=("matplotlib",),
    ),
    Kind(
        "a grid of axes, an image and a legend",
        """
        import matplotlib

        matplotlib.use("agg")
        import numpy as np
        from matplotlib.figure import Figure

        figure = Figure()
        grid = figure.subplots(2, 2)
        image = grid[0, 0].imshow(np.arange(4).reshape(2, 2))
        grid[0, 1].bar(["a", "b"], [1, 2], label="n")
        grid[0, 1].legend()
        """,
        """
        assert grid.shape == (2, 2) and figure.axes[0] is grid[0, 0] and image in grid[0, 0].get_images()
        assert image.get_array().tolist() == [[0, 1], [2, 3]]
        """,
        needs=("matplotlib",),
    ),
    Kind(
        "plotly figures",
        """
        import plotly.graph_objects as go

        chart = go.Figure(go.Scatter(x=[1, 2], y=[3, 4], name="s"))
        chart.update_layout(title="t")
        """,
        """
        assert chart.data[0].name == "s" and chart.layout.title.text == "t" and list(chart.data[0].y) == [3, 4]
        chart.add_bar(y=[1])
        assert len(chart.data) == 2
        """,
        needs=("plotly",),
    ),
    Kind(
        "graphs",
        """
        import networkx as nx

        graph = nx.Graph(name="g")
        graph.add_edge("a", "b", weight=2.5)
        directed = nx.DiGraph([(1, 2), (2, 3)])
        neighbours = graph.adj
        """,
        """
        assert graph["a"]["b"]["weight"] == 2.5 and nx.shortest_path(directed, 1, 3) == [1, 2, 3]
        graph.add_edge("a", "c")
        assert "c" in neighbours["a"] and graph.graph == {"name": "g"}
        """,
        needs=("networkx",),
    ),
    Kind(
        "formulas",
        """
        import sympy

        x, y = sympy.symbols("x y", positive=True)
        formula = sympy.sqrt(x**2) + sympy.Integral(y, (y, 0, x))
        matrix = sympy.Matrix([[x, 1], [0, y]])
        """,
        """
        assert formula.doit() == x + x**2 / 2 and x.is_positive and matrix.det() == x * y
        assert sympy.Symbol("x", positive=True) == x
        """,
        needs=("sympy",),
    ),
    Kind(
        "pictures",
        """
        from PIL import Image

        picture = Image.new("RGB", (4, 3), (255, 0, 10))
        """,
        """
        assert picture.size == (4, 3) and picture.getpixel((3, 2)) == (255, 0, 10)
        picture.putpixel((0, 0), (1, 2, 3))
        assert picture.getpixel((0, 0)) == (1, 2, 3)
        """,
        needs=("PIL",),
    ),
)
