"""Runs the cells of a file in a Jupyter kernel of its own and prints, as JSON, what each cell put out.

python play.py CELLS        cells begin with a line "# %%"; the kernel inherits the environment
"""

import json
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


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
NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
print(json.dumps([[shown(output) for output in cell.outputs] for cell in notebook.cells], indent=1))
