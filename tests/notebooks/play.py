"""Runs the cells of a file in a Jupyter kernel of its own and prints, as JSON, what each cell put out.

python play.py CELLS        cells begin with a line "# %%"; the kernel inherits the environment
"""

import json
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

LONG = 900
"""How long anything is waited for [s]: by default what a busy kernel says after four seconds is left out."""


def cells(path):
    parts = ("\n" + Path(path).read_text(encoding="utf-8")).split("\n# %%")
    return [part.partition("\n")[2] for part in parts[1:]]


def shown(output):
    if output.output_type == "stream":
        return [output.name, output.text]
    if output.output_type == "error":
        return [output.ename, output.evalue]
    return ["value", output.data["text/plain"]]


notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells(sys.argv[1])])
with tempfile.TemporaryDirectory(prefix="nbtest-") as folder:
    # By sockets in a folder of this process: ports are chosen before the kernel takes them, and may be another's by then.
    by_sockets = Config({"ConnectionFileMixin": {"transport": "ipc", "ip": f"{folder}/kernel"}})
    NotebookClient(
        notebook, timeout=LONG, startup_timeout=LONG, iopub_timeout=LONG, kernel_name="python3", config=by_sockets
    ).execute()
print(json.dumps([[shown(output) for output in cell.outputs] for cell in notebook.cells], indent=1))
