"""Machines in other languages: ONNX, C99 and JavaScript, and machines with fewer support vectors."""

from mercer.export.compaction import Compaction as Compaction
from mercer.export.compaction import compact as compact
from mercer.export.kernel_formulas import NotExportableError as NotExportableError
from mercer.export.machine_formulas import MachineFormula as MachineFormula
from mercer.export.onnx_export import register_with_skl2onnx as register_with_skl2onnx
from mercer.export.onnx_export import to_onnx as to_onnx
from mercer.export.programs import to_c as to_c
from mercer.export.programs import to_javascript as to_javascript
