"""What the extension costs on notebooks that people wrote, and whether it brings back all of what they made.

`python -m benchmarks.real_notebooks FOLDER` runs every notebook below a folder plain and with the extension, each in a
fresh process and a copy of its folder. Costs are CPU time, since they are compared between processes.
"""
