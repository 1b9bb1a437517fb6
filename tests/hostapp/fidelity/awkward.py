"""JSON that is legal and seldom comes through."""

from __future__ import annotations

from typing import Final

DEEP: Final = "[" * 100 + '{"":' * 100 + "null" + "}" * 100 + "]" * 100
VALUES: Final[dict[str, str]] = {
    "nulls": '{"z":null,"a":[null,{"n":null}]}',
    "large integers": '{"i":1152921504606846977,"j":-1152921504606846977,"k":1208925819614629174706177}',
    "numbers that are whole and not integers": '{"f":1.0,"e":1e2,"zero":-0.0,"small":1e-7,"one":1,"true":true}',
    "lone surrogates": '{"high":"\\ud800","low":"x\\udfffy","\\ud83d":"\\ude00\\ud83d"}',
    "emoji": '{"raw":"\U0001f600","pair":"\\ud83d\\ude00","joined":"\U0001f468\u200d\U0001f469"}',
    "empty and odd keys": '{"":{"":[]}," ":{},"\\u0000":"\\u0000\\u001f\\u2028\\/","__proto__":1,"\\n":""}',
    "order of keys": '{"z":0,"a":1,"10":2,"9":3,"_":{"b":0,"a":0}}',
    "nested 200 deep": f'{{"deep":{DEEP}}}',
}
UNKNOWN: Final = ',"future":{"z":null,"a":[1.0]},"more":1152921504606846977'
"""Keys of an envelope that no specification knows."""
