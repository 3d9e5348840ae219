"""Imports that Confluent's registry and serializers resolve without references: Google's and Confluent's own files.

google/protobuf comes with the wheel protobuf, google/type with googleapis-common-protos. Confluent's two files have the
fields of its documentation ("Formats, Serializers, and Deserializers for Schema Registry: Protobuf").
"""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto

_GOOGLE = ("google/protobuf/", "google/type/")
_OPTIONS = ("File", "Message", "Field", "Enum", "EnumValue")
_EXTENSIONS = "".join(
    f"extend google.protobuf.{kind}Options {{ optional Meta {name}_meta = 1088; }}\n"
    for kind, name in zip(_OPTIONS, ("file", "message", "field", "enum", "enum_value"), strict=True)
)
CONFLUENT = {
    "confluent/meta.proto": f"""syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {{ string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4; }}
message Rule {{ string name = 1; string doc = 2; string expr = 3; string sql = 4; }}
{_EXTENSIONS}""",
    "confluent/type/decimal.proto": """syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
}
"""Texts by name."""


def built_in(name: str) -> Any:
    """The ``FileDescriptorProto`` of one of Google's files, else None. Raises KeyError if its package is not
    installed.
    """
    if not name.startswith(_GOOGLE):
        return None
    try:
        importlib.import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")  # registers the file
    except ImportError as error:
        raise KeyError(f"it imports {name}: pip install googleapis-common-protos") from error
    found = FileDescriptorProto()
    descriptor_pool.Default().FindFileByName(name).CopyToProto(found)
    return found


def folders() -> list[Path]:
    """Where protoc finds the texts of Google's files."""
    found = []
    for package, below in (("grpc_tools", "_proto"), ("google.type", "../..")):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            found.append((Path(next(iter(spec.submodule_search_locations))) / below).resolve())
    return found
