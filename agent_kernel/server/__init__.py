"""Look at a notebook's history without its kernel: an extension of jupyter-server.

It only reads: values stay pickled, nothing is stored, no route changes anything. What it answers is what a kernel's panel
answers (`agent_kernel.queries`), for the stores of notebooks under the server's root folder that this user made.
`openapi.yaml` describes the routes. `_jupyter_server_extension_points` of the package leads Jupyter to `app`.
"""
