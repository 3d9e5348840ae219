"""How Kafka's types of fixed size are written: big-endian, as ``struct`` names them."""

FIXED_FORMATS = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "bool": "?",
}
