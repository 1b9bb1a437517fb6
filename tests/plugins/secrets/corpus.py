"""The corpus that precision and recall are measured on.

Every secret is made here, from pieces and a fixed seed, so that the repository holds none that a scanner would report.
"""

from __future__ import annotations

import base64
import json
import random
import string
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

UPPER_DIGITS = string.ascii_uppercase + string.digits
ALNUM = string.ascii_letters + string.digits
URL_SAFE = ALNUM + "-_"
BASE64 = ALNUM + "+/"
HEX = "0123456789abcdef"
BECH32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A payload, and the secrets in it that must be gone.

    Attributes:
        name: what the case is about.
        payload: the result or params.
        secrets: verbatim, as they must not leave; none for a near miss.
        kind: what they are, or None where that does not matter.
    """

    name: str
    payload: dict[str, Any]
    secrets: tuple[str, ...] = ()
    kind: str | None = None


class Maker:
    """Makes secrets; equal seeds make equal ones."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def some(self, alphabet: str, length: int) -> str:
        """Return random characters, of every class that the alphabet has when there is room."""
        classes = [set(alphabet) & set(one) for one in (string.digits, string.ascii_uppercase, string.ascii_lowercase)]
        while True:
            token = "".join(self._random.choices(alphabet, k=length))
            if length < 10 or all(not one or one & set(token) for one in classes):
                return token

    def body(self, beginning: str, length: int = 1200, width: int = 64) -> list[str]:
        """Return the lines of a base64 body."""
        text = beginning + self.some(BASE64, length - len(beginning) - 2) + "=="
        return textwrap.wrap(text, width)

    def pem(self, label: str, beginning: str = "MIIE" + "vQIBADAN", length: int = 1200) -> str:
        """Return a PEM block."""
        return "\n".join([f"-----BEGIN {label}-----", *self.body(beginning, length), f"-----END {label}-----"])

    def jwt(self, header: str = '{"alg":"RS256","typ":"JWT"}', parts: int = 3) -> str:
        """Return a JSON Web Token."""
        first = base64.urlsafe_b64encode(header.encode()).decode().rstrip("=")
        claims = base64.urlsafe_b64encode(b'{"sub":"1234567890","admin":true}').decode().rstrip("=")
        rest = [claims, *(self.some(URL_SAFE, 43) for _ in range(parts - 2))]
        return ".".join([first, *rest])


MAKERS: dict[str, list[Callable[[Maker], str]]] = {
    "aws-access-key-id": [
        lambda make: "AK" + "IA" + make.some(UPPER_DIGITS, 16),
        lambda make: "AS" + "IA" + make.some(UPPER_DIGITS, 16),
    ],
    "aws-session-token": [
        lambda make: "IQoJb3JpZ2lu" + "X2Vj" + make.some(BASE64, 300) + "=",
        lambda make: "FwoGZXIv" + "YXdzE" + make.some(BASE64, 260),
    ],
    "gcp-api-key": [lambda make: "AI" + "za" + make.some(URL_SAFE, 34) + "x"],
    "google-oauth-token": [
        lambda make: "ya" + "29." + make.some(URL_SAFE, 120),
        lambda make: "GOC" + "SPX-" + make.some(URL_SAFE, 28),
    ],
    "github-token": [
        *(lambda make, letter=letter: f"gh{letter}" + "_" + make.some(ALNUM, 36) for letter in "pousr"),
        lambda make: "github" + "_pat_" + make.some(ALNUM, 22) + "_" + make.some(ALNUM, 59),
        lambda make: "gh" + "s_1234567_" + make.jwt(),
        lambda make: "gh" + "p_" + make.some(ALNUM, 25),
    ],
    "gitlab-token": [
        lambda make: "gl" + "pat-" + make.some(URL_SAFE, 20),
        lambda make: "gl" + "rt-" + make.some(URL_SAFE, 20),
        lambda make: "gl" + "pat-" + make.some(URL_SAFE, 27) + ".01." + make.some("0123456789abcdef", 9),
    ],
    "slack-token": [
        lambda make: "xo" + f"xb-{make.some('123456789', 12)}-{make.some('123456789', 12)}-{make.some(ALNUM, 24)}",
        lambda make: "xo" + f"xp-{make.some('123456789', 11)}-{make.some('123456789', 11)}-{make.some(HEX, 32)}",
        lambda make: "xo" + f"xe.xo{'xp'}-1-{make.some(ALNUM, 160)}",
        lambda make: "xa" + f"pp-1-A{make.some(UPPER_DIGITS, 10)}-{make.some('123456789', 13)}-{make.some(HEX, 64)}",
    ],
    "stripe-key": [
        lambda make: "sk" + "_live_" + make.some(ALNUM, 24),
        lambda make: "rk" + "_live_" + make.some(ALNUM, 99),
        lambda make: "sk" + "_test_" + make.some(ALNUM, 99),
        lambda make: "wh" + "sec_" + make.some(ALNUM, 32),
        lambda make: "sk" + "_live_" + make.some(ALNUM, 22),
    ],
    "openai-key": [
        lambda make: "sk" + "-" + make.some(ALNUM, 20) + "T3Blbk" + "FJ" + make.some(ALNUM, 20),
        lambda make: "sk" + "-proj-" + make.some(URL_SAFE, 74) + "T3Blbk" + "FJ" + make.some(URL_SAFE, 74),
        lambda make: "sk" + "-svcacct-" + make.some(URL_SAFE, 150),
        lambda make: "sk" + "-" + make.some(HEX, 32),
    ],
    "anthropic-key": [
        lambda make: "sk" + "-ant-api03-" + make.some(URL_SAFE, 93) + "AA",
        lambda make: "sk" + "-ant-oat01-" + make.some(URL_SAFE, 93) + "AA",
    ],
    "openrouter-key": [lambda make: "sk" + "-or-v1-" + make.some(HEX, 64)],
    "npm-token": [lambda make: "np" + "m_" + make.some(ALNUM, 36)],
    "pypi-token": [lambda make: "py" + "pi-AgEIcHlwaS5vcmc" + make.some(URL_SAFE, 150)],
    "sendgrid-key": [lambda make: "S" + f"G.{make.some(URL_SAFE, 22)}.{make.some(URL_SAFE, 42)}x"],
    "twilio-key": [lambda make: "S" + "K" + make.some(HEX, 32)],
    "huggingface-token": [lambda make: "h" + "f_" + make.some(string.ascii_letters, 34)],
    "digitalocean-token": [lambda make: "do" + "p_v1_" + make.some(HEX, 64)],
    "databricks-token": [lambda make: "da" + "pi" + make.some(HEX, 32)],
    "docker-token": [lambda make: "dc" + "kr_pat_" + make.some(URL_SAFE, 27)],
    "shopify-token": [lambda make: "sh" + "pat_" + make.some(HEX, 32)],
    "vault-token": [lambda make: "hv" + "s." + make.some(URL_SAFE, 95)],
    "age-key": [lambda make: "AGE-SECRET" + "-KEY-1" + make.some(BECH32, 58)],
    "jwt": [
        lambda make: make.jwt(),
        lambda make: make.jwt('{"typ":"JWT",\r\n "alg":"HS256"}'),
        lambda make: make.jwt('{ "kid": "a", "alg": "ES256" }'),
        lambda make: make.jwt('{"alg":"RSA-OAEP","enc":"A256GCM"}', parts=5),
    ],
}
"""How tokens that need nothing around them are made, by kind."""

CONTEXTS: dict[str, str] = {
    "alone": "{}",
    "in a file of variables": "DEBUG=1\nTOKEN={}\nPORT=80\n",
    "in quotes": "const token = '{}';",
    "in a URL": "GET https://example.test/v1?token={}&page=2",
    "in a header": "curl -H 'Authorization: Bearer {}' https://example.test",
    "behind a written-out line break": "first line\\n{}\\nlast line",
    "at the end of a sentence": "The key is {}.",
    "in markup": "<value>{}</value>",
    "in colour": "\x1b[32m{}\x1b[0m",
    "in JSON": '{{"a": 1.0, "token": "{}"}}',
}

AWS_SECRET_CONTEXTS: dict[str, str] = {
    "variable": "export AWS_SECRET_ACCESS_KEY={}",
    "credentials file": "[default]\naws_secret_access_key = {}\n",
    "camel case": '{{"SecretAccessKey": "{}"}}',
    "quoted": 'secret_key: "{}"',
    "XML": "<SecretAccessKey>{}</SecretAccessKey>",
    "variable of a container": 'env: [ name: "AWS_SECRET_ACCESS_KEY", value: "{}" ]',
    "short name": "aws_secret={}",
}
AZURE_CONTEXTS: dict[str, str] = {
    "connection string": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=core.windows.net",
    "member": '{{"accountKey": "{}"}}',
    "variable": "AZURE_STORAGE_ACCOUNT_KEY={}",
}


def text_result(text: str) -> dict[str, Any]:
    """Return a tool's result with one text."""
    return {"content": [{"type": "text", "text": text}]}


def _tokens() -> Iterator[Case]:
    for kind, makers in MAKERS.items():
        for number, make in enumerate(makers):
            for place, context in CONTEXTS.items():
                secret = make(Maker(f"{kind} {number} {place}"))
                yield Case(
                    name=f"{kind} {number} {place}",
                    payload=text_result(context.format(secret)),
                    secrets=(secret,),
                    kind=kind,
                )


def _named() -> Iterator[Case]:
    for place, context in AWS_SECRET_CONTEXTS.items():
        secret = Maker(f"aws secret {place}").some(BASE64, 40)
        kind = "aws-secret-access-key"
        yield Case(name=f"{kind} {place}", payload=text_result(context.format(secret)), secrets=(secret,), kind=kind)
    make = Maker("aws pair")
    identifier, secret = "AK" + "IA" + make.some(UPPER_DIGITS, 16), make.some(BASE64, 40)
    for name, text in (
        ("csv", f"Access key ID,Secret access key\n{identifier},{secret}\n"),
        ("two lines", f"{identifier}\n{secret}"),
    ):
        yield Case(name=f"aws pair, {name}", payload=text_result(text), secrets=(identifier, secret))
    structured = {"Credentials": {"AccessKeyId": identifier, "SecretAccessKey": secret}}
    yield Case(name="aws pair, structured", payload={"structuredContent": structured}, secrets=(identifier, secret))
    variables = [{"name": "AWS_SECRET_ACCESS_KEY", "value": secret}]
    yield Case(name="aws, list of variables", payload={"arguments": {"env": variables}}, secrets=(secret,))
    for place, context in AZURE_CONTEXTS.items():
        secret = Maker(f"azure {place}").some(BASE64, 86) + "=="
        kind = "azure-storage-key"
        yield Case(name=f"{kind} {place}", payload=text_result(context.format(secret)), secrets=(secret,), kind=kind)
    secret = Maker("service bus").some(BASE64, 43) + "="
    text = f"Endpoint=sb://a.example.test/;SharedAccessKeyName=Root;SharedAccessKey={secret}"
    yield Case(name="azure service bus", payload=text_result(text), secrets=(secret,), kind="azure-storage-key")
    make = Maker("slack webhook")
    secret = f"T{make.some(UPPER_DIGITS, 8)}/B{make.some(UPPER_DIGITS, 8)}/{make.some(ALNUM, 24)}"
    escaped = secret.replace("/", "\\/")
    for place, text, verbatim in (
        ("URL", f"POST https://hooks.slack.com/services/{secret}", secret),
        ("escaped", f'see {{"url": "https:\\/\\/hooks.slack.com\\/services\\/{escaped}"}}', escaped),
    ):
        yield Case(name=f"slack-webhook {place}", payload=text_result(text), secrets=(verbatim,), kind="slack-webhook")


def _pem_cases() -> Iterator[Case]:
    kind = "private-key"
    labels = {
        "PRIVATE KEY": "MIIE" + "vQIBADAN",
        "RSA PRIVATE KEY": "MIIE" + "pAIBAAKC",
        "ENCRYPTED PRIVATE KEY": "MIIFHDBO",
        "EC PRIVATE KEY": "MHcC" + "AQEEI",
        "OPENSSH PRIVATE KEY": "b3BlbnNz" + "aC1rZXktdjE",
        "DSA PRIVATE KEY": "MIIDVwIB",
        "PGP PRIVATE KEY BLOCK": "lQdGBGX",
    }
    for label, beginning in labels.items():
        make = Maker(label)
        block = make.pem(label, beginning)
        lines = block.splitlines()
        secret = tuple(line for line in lines if not line.startswith("-----"))
        shapes = {
            "whole": f"before\n{block}\nafter",
            "escaped": 'key = "' + block.replace("\n", "\\n") + '\\n"',
            "escaped twice": block.replace("\n", "\\\\n"),
            "on one line": " ".join(lines),
            "CRLF": block.replace("\n", "\r\n"),
            "indented": textwrap.indent(block, "    "),
            "quoted in mail": textwrap.indent(block, "> ", lambda _: True),
            "concatenated": " +\n".join(f'"{line}\\n"' for line in lines),
            "without END": "\n".join(lines[:-1]) + "\n\nThe file ends here.",
            "cut in the middle": block[: len(block) // 2],
            "without END, escaped": "\\n".join(lines[:-1]),
            "JSON": json.dumps({"type": "service_account", "private_key": block + "\n", "n": 1.0}),
            "percent-encoded": quote(block, safe=""),
        }
        for shape, text in shapes.items():
            parts = secret
            if shape == "cut in the middle":
                parts = tuple(line for line in text.splitlines()[1:-1])
            elif shape == "percent-encoded":
                parts = tuple(quote(line, safe="") for line in secret)
            yield Case(name=f"{label}, {shape}", payload=text_result(text), secrets=parts, kind=kind)
    make = Maker("headers")
    lines = make.body("MIIE" + "pAIBAAKC")
    head = [
        "-----BEGIN RSA PRIVATE KEY-----",
        "Proc-Type: 4,ENCRYPTED",
        "DEK-Info: AES-256-CBC," + make.some(HEX, 32),
        "",
    ]
    for shape, tail in (("whole", ["-----END RSA PRIVATE KEY-----"]), ("without END", [])):
        text = "\n".join([*head, *lines, *tail])
        yield Case(name=f"with headers, {shape}", payload=text_result(text), secrets=tuple(lines), kind=kind)
    lines = Maker("SSH2").body("P2/56wAAA", width=70)
    ssh2 = "SSH2 ENCRYPTED PRIVATE KEY"
    text = "\n".join([f"---- BEGIN {ssh2} ----", "Comment: a key", *lines, f"---- END {ssh2} ----"])
    yield Case(name="four dashes", payload=text_result(text), secrets=tuple(lines), kind=kind)
    for name, beginning, length in (
        ("PKCS#8", "MIIE" + "vQIBADANBgkqhkiG9w0BAQEFAASC", 1200),
        ("PKCS#1", "MIIE" + "pAIBAAKCAQEA", 1200),
        ("OpenSSH", "b3BlbnNz" + "aC1rZXktdjEAAAAA", 400),
        ("EC", "MIGH" + "AgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0w", 184),
    ):
        lines = Maker(name).body(beginning, length)
        text = "\n".join(lines)
        yield Case(name=f"without BEGIN, {name}", payload=text_result(text), secrets=tuple(lines), kind=kind)


def _hostile() -> Iterator[Case]:
    make = Maker("hostile")
    key = "AK" + "IA" + make.some(UPPER_DIGITS, 16)
    token = "gh" + "p_" + make.some(ALNUM, 36)

    def full_width(text: str) -> str:
        return "".join(chr(ord(character) + 0xFEE0) if character.isalnum() else character for character in text)

    def written_out(text: str) -> str:
        return "".join(f"\\u{ord(character):04x}" for character in text)

    for name, secret in (
        ("full-width digits", "".join(full_width(one) if one.isdigit() else one for one in key)),
        ("full-width", full_width(token)),
        ("zero-width space between", "\u200b".join(key)),
        ("soft hyphens", token[:10] + "\u00ad" + token[10:20] + "\u00ad" + token[20:]),
        ("byte order mark within", key[:4] + "\ufeff" + key[4:]),
        ("tag characters within", key[:6] + "\U000e0041\U000e0042" + key[6:]),
        ("variation selector within", token[:3] + "\ufe0f" + token[3:]),
        ("a mark on the last character", key),
        ("mathematical letters", "".join(chr(0x1D7EC + int(one)) if one.isdigit() else one for one in key)),
    ):
        tail = "\u0301" if name.startswith("a mark") else ""
        yield Case(name=name, payload=text_result(f"é {secret}{tail} é"), secrets=(secret,))
    places: dict[str, dict[str, Any]] = {
        "object key": {"arguments": {token: 1, "other": 2}},
        "two equal beginnings of keys": {"arguments": {token: 1, f"{token} ": 2}},
        "structured content": {"structuredContent": {"rows": [[{"t": token}]]}},
        "embedded resource": {"content": [{"type": "resource", "resource": {"uri": "file:///x", "text": token}}]},
        "address of a resource": {"resources": [{"uri": f"https://example.test/?t={token}", "name": "x"}]},
        "description": {"tools": [{"name": "t", "description": f"use {token}", "inputSchema": {"type": "object"}}]},
        "default in a schema": {"tools": [{"name": "t", "inputSchema": {"properties": {"k": {"default": token}}}}]},
        "instructions": {"serverInfo": {"name": "s", "version": "1"}, "instructions": f"The key is {token}"},
        "log message": {"level": "info", "logger": "x", "data": {"msg": token}},
        "progress message": {"progressToken": 1, "progress": 1, "message": f"using {token}"},
        "metadata of its own": {"content": [], "_meta": {"com.example/debug": {"token": token}}},
        "text that says it is a picture": {
            "content": [{"type": "image", "data": f"see {token} here, and then some more"}]
        },
        "a key that says it is a picture": {"content": [{"type": "image", "data": key, "mimeType": "image/png"}]},
        "text that says it is a blob": {
            "contents": [{"uri": "file:///x", "blob": f"{token} in words, not base64, at length"}]
        },
        "data URI of plain text": {"icons": [{"src": f"data:text/plain,{token}"}]},
        "data URI that is none": {"icons": [{"src": f"data:text/plain;base64,{token}"}]},
        "behind a picture in the text": text_result(f"![x](data:image/png;base64,{'A' * 80}) {token}"),
        "JSON in text": text_result(json.dumps({"a": [token]})),
        "JSON in JSON in text": text_result(json.dumps({"a": json.dumps({"b": json.dumps([token])})})),
        "written out in JSON": text_result('{"a": "' + written_out(token) + '"}'),
        "half written out in JSON": text_result('{"a": "' + token[:3] + written_out(token[3:5]) + token[5:] + '"}'),
        "repeated key in JSON": text_result(f'{{"a": "{token}", "a": "x"}}'),
        "key in JSON in text": text_result(json.dumps({token: 1.0})),
        "lines of JSON": text_result(f'{{"a": "{token}"}}\n{{"b": "x"}}'),
        "fenced JSON": text_result(f'```json\n{{"a": "{token}"}}\n```'),
        "percent-encoded": text_result(f"https://example.test/?q=%22{token}%22"),
        "several in one text": text_result(f"{token}{key}{token} {key}"),
        "glued to a word": text_result(f"token{token}"),
    }
    for name, payload in places.items():
        yield Case(name=name, payload=payload, secrets=(key if "a key that says" in name else token,))
    lines = Maker("lines").pem("PRIVATE KEY").splitlines()
    body = tuple(lines[1:-1])
    yield Case(name="key as an array of lines", payload={"structuredContent": {"lines": lines}}, secrets=body)
    blocks = [{"type": "text", "text": line} for line in lines]
    yield Case(name="key as blocks of content", payload={"content": blocks}, secrets=body)
    halves = ["\n".join(lines[:6]), "\n".join(lines[6:])]
    yield Case(
        name="key in two blocks of content",
        payload={"content": [{"type": "text", "text": half} for half in halves]},
        secrets=body,
    )
    deep: Any = token
    for _ in range(150):
        deep = {"k": [deep]}
    yield Case(name="deep", payload={"arguments": deep}, secrets=(token,))


def _beyond() -> Iterator[Case]:
    make = Maker("beyond")
    key, token = "AK" + "IA" + make.some(UPPER_DIGITS, 16), "gh" + "p_" + make.some(ALNUM, 36)
    secret, password = make.some(BASE64, 40), make.some(ALNUM, 20)
    for name, text, value in (
        ("base64 of a secret", base64.b64encode(token.encode()).decode(), base64.b64encode(token.encode()).decode()),
        ("hexadecimal of a secret", token.encode().hex(), token.encode().hex()),
        ("backwards", token[::-1], token[::-1]),
        ("concatenated in a program", f'"{token[:12]}" + "{token[12:]}"', token[12:]),
        ("broken by a line end", f"{token[:20]}\n{token[20:]}", token[20:]),
        ("AWS secret key with nothing around it", secret, secret),
        ("written out in lines of JSON", '{"a": "' + "\\u0067" + token[1:] + '"}\n{}', token[1:]),
        ("password in an assignment", f"DB_PASSWORD={password}", password),
        ("password in a URL", f"postgres://app:{password}@db.example.test/app", password),
        ("half of a JWT", make.jwt().rpartition(".")[0], make.jwt().rpartition(".")[0]),
        ("opaque bearer token", f"Authorization: Bearer {make.some(URL_SAFE, 43)}", ""),
    ):
        yield Case(name=name, payload=text_result(text), secrets=(value or text.rpartition(" ")[2],))
    yield Case(name="in two texts", payload={"content": [key[:10], key[10:]]}, secrets=(key[10:],))


def _near() -> Iterator[Case]:
    make = Maker("near")
    certificate = make.pem("CERTIFICATE", "MIID" + "dzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBa")
    public = make.pem("PUBLIC KEY", "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA", 392)
    picture = base64.b64encode(random.Random("picture").randbytes(3000)).decode()
    commit = make.some(HEX, 40)
    texts = {
        "commit": f"commit {commit}",
        "short commit": "see 4f2c9ab",
        "commit as secret key": f"secret key: {commit}",
        "UUID": "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "session token of 32 hexadecimal digits": f"session={make.some(HEX, 32)}",
        "MD5": f"{make.some(HEX, 32)}  file.iso",
        "SHA-256": f"sha256:{make.some(HEX, 64)}",
        "integrity": f'"integrity": "sha512-{make.some(BASE64, 86)}=="',
        "bcrypt": f"$2b$12${make.some(ALNUM, 53)}",
        "base64 picture in markup": f'<img src="{picture}">',
        "base64 picture": picture,
        "data URI": f"![x](data:image/png;base64,{picture})",
        "certificate": certificate,
        "chain of certificates": certificate + "\n" + certificate,
        "public key": public,
        "RSA public key": make.pem("RSA PUBLIC KEY", "MIIBCgKCAQEA", 392),
        "SSH public key": f"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{make.some(BASE64, 340)} user@host",
        "PGP public key": make.pem("PGP PUBLIC KEY BLOCK", "mQINBGX"),
        "PGP message": make.pem("PGP MESSAGE", "hQIMA"),
        "certificate request": make.pem("CERTIFICATE REQUEST", "MIICijCC"),
        "sentence about PEM": "It starts with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----.",
        "BEGIN line alone": "grep -c -- '-----BEGIN RSA PRIVATE KEY-----' key.pem",
        "placeholder in PEM": "-----BEGIN PRIVATE KEY-----\n<your key here>\n-----END PRIVATE KEY-----",
        "sk- in prose": "sk-learn, the sk-SK locale and sk-8 boards; ask-me-anything, risk-free",
        "sk- in a style sheet": ".sk-spinner-three-bounce-container-with-a-very-long-name { color: red }",
        "words behind sk-proj-": "sk-proj-my-own-little-kebab-case-project-name",
        "words behind sk-ant-": "desk-ant-colony-optimisation-algorithms-2024",
        "task names": "task-20240101-disk-usage-report-final-version-2",
        "AKIA in prose": "AKIA is a prefix, and AKIAs are many; SAKIA, NAKIAMBA",
        "placeholder of an AWS key": "AKIA" + "X" * 16,
        "nucleotides": "ACCAGTTGACGATTGACCTA",
        "capitals that go on": "AKIA" + "IOSFODNN7" * 4,
        "placeholder of a GitHub token": "ghp_" + "x" * 36,
        "shader": "uniform highp_precision_float_for_the_fragment_shader",
        "npm variables": "npm_config_registry npm_lifecycle_event npm_package_dependencies_left_pad",
        "huggingface functions": "hf_hub_download, hf_transfer and hf_api_with_a_rather_long_name_behind_it",
        "SG. in prose": "SG. 12 and MSG.example.of.a.long.dotted.name.without.any.meaning",
        "Twilio account": f"AC{make.some(HEX, 32)}",
        "SK within a word": f"TASK{make.some(HEX, 32)}",
        "SK and fewer digits": f"SK{make.some(HEX, 31)}",
        "SKU": "SKU SK1234567890 and SK-12",
        "hugs": "xoxo-hugs-and-kisses-from-all-of-us",
        "publishable key of Stripe": f"pk_live_{make.some(ALNUM, 24)}",
        "placeholder of a Stripe key": "sk_live_" + "X" * 24,
        "identifier with live": "task_live_status_of_the_background_worker",
        "words behind glpat-": "glpat-is-the-beginning-of-such-tokens",
        "short AIza": "AIzaSy",
        "base64 of JSON": base64.b64encode(json.dumps({"cursor": 1234567890, "page": 2}).encode()).decode(),
        "dotted names": "eyJhbGciOiJ.example.com and com.example.application.module",
        "three parts without alg": ".".join(
            [base64.urlsafe_b64encode(b'{"typ":"other thing"}').decode().rstrip("=")] * 3
        ),
        "version": "1.2.3-beta.4+build.5678, v10.20.30.40",
        "unset secret": "aws_secret_access_key = ${AWS_SECRET_ACCESS_KEY}",
        "secret that is a path": "secret key in /usr/local/share/ca-certificates/extra/mine",
        "placeholder of an Azure key": "AccountKey=<your-account-key>;EndpointSuffix=core.windows.net",
        "pypi in prose": "pypi-server, pypi-AgE",
        "vault path": "hvs.example.com and hvs.toml",
        "slack documentation": "https://hooks.slack.com/services/ is where it goes",
        "address": f"0x{make.some(HEX, 40)}",
        "ULID": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "container image": f"ghcr.io/org/image@sha256:{make.some(HEX, 64)}",
        "opaque cursor": "dXNlcjpVMDYxTkZUVDI=",
        "minified program": "function a(b,c){return b.sk?b.sk-c:ghp_(b)}var d={eyJ:1,hf_:2,SG:3};",
        "already redacted": "token: [REDACTED:github-token]",
        "numbers": "4111 1111 1111 1111, 2026-11-30T12:00:00Z, 1e400",
        "prose": "Keep your secret access key secret; an account key is for an account. " * 5,
        "other scripts": "秘密のキーは見せないでください。" * 20,
    }
    for name, text in texts.items():
        yield Case(name=name, payload=text_result(text))
    yield Case(name="picture", payload={"content": [{"type": "image", "data": picture, "mimeType": "image/png"}]})
    yield Case(name="blob", payload={"contents": [{"uri": "file:///x", "blob": picture}]})
    numbers: dict[str, Any] = {"n": 1.0, "big": 2**60 + 1, "none": None, "t": True, "list": [], "o": {}}
    yield Case(name="values of all types", payload={"structuredContent": numbers, "content": []})
    yield Case(name="numbers in JSON in text", payload=text_result('{ "a": 1.0, "b":1e400 , "a": [ ] }'))


def _false_alarms() -> Iterator[Case]:
    make = Maker("false alarms")
    yield Case(name="part number that looks like a Twilio key", payload=text_result(f"part SK{make.some(HEX, 32)}"))
    yield Case(name="style class that looks like a key", payload=text_result(f'class="sk-{make.some(HEX, 32)}"'))
    yield Case(name="example of AWS's documentation", payload=text_result("AK" + "IAIOSFODNN7EXAMPLE"))
    yield Case(name="checksum called a secret key", payload=text_result(f"secret_key: {make.some(BASE64, 40)}"))


TRUE = [*_tokens(), *_named(), *_pem_cases()]
"""Secrets as they occur."""
HOSTILE = list(_hostile())
"""Secrets where, or in a form in which, they are easily missed."""
BEYOND = list(_beyond())
"""Secrets that the plugin is known to miss; they count against its recall."""
NEAR = list(_near())
"""What looks like a secret and must stay untouched."""
FALSE_ALARMS = list(_false_alarms())
"""What the plugin is known to redact without need; it counts against its precision."""
