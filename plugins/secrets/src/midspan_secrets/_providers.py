"""Tokens that say whose they are: the formats that providers document, or have used for years."""

from __future__ import annotations

from typing import Final

from midspan_secrets._detector import EDGE, TokenDetector, mixed, random_looking, varied

# A value as it stands in a URL, in a JSON text, or plainly.
_BASE64_CHARACTER: Final = r"(?:[A-Za-z0-9+/]|\\/|\\u002[bBfF]|%2[bBfF])"
_PADDING: Final = r"(?:=|%3[dD]|\\u003[dD])"
# Between a name and its value: quotes, `=`, `:`, `=>`, an XML bracket, spaces.
_ASSIGNED: Final = r"(?:\\u003[dDaA]|[^A-Za-z0-9/+%]|%3[dDaA]){1,12}+"


def _openai(token: str) -> bool:
    body = token[3:]
    return varied(body) and (mixed(body) if "-" in body else random_looking(body))


def _has_digit(token: str) -> bool:
    return varied(token) and any(map(str.isdigit, token))


def _anthropic(token: str) -> bool:
    return mixed(token[7:])


PROVIDERS: Final = (
    TokenDetector(
        kind="aws-access-key-id",
        what="AWS access key ids (`AKIA…`, `ASIA…`)",
        anchors=("AKIA", "ASIA", "ABIA", "ACCA"),
        pattern=r"(?:(?<![A-Z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))A[KSBC][IC]A[A-Z0-9]{16}(?![A-Z0-9])",
        accept=varied,
    ),
    TokenDetector(
        kind="aws-session-token",
        what="AWS session tokens",
        anchors=("IQoJb3JpZ2lu", "FwoGZXIvYXdz", "FQoGZXIvYXdz", "AQoDYXdz"),
        pattern=EDGE + _BASE64_CHARACTER + r"{100,}+" + _PADDING + r"{0,2}+",
    ),
    TokenDetector(
        kind="gcp-api-key",
        what="Google API keys (`AIza…`)",
        anchors=("AIza",),
        pattern=EDGE + r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])",
        accept=varied,
    ),
    TokenDetector(
        kind="google-oauth-token",
        what="Google OAuth access tokens (`ya29.…`) and client secrets (`GOCSPX-…`)",
        anchors=("ya29.", "GOCSPX-"),
        pattern=EDGE + r"(?:ya29\.[A-Za-z0-9_-]{20,}+|GOCSPX-[A-Za-z0-9_-]{28})",
        accept=random_looking,
    ),
    TokenDetector(
        kind="github-token",
        what="GitHub tokens (`ghp_`, `gho_`, `ghu_`, `ghs_`, `ghr_`, `github_pat_`)",
        anchors=("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        pattern=r"(?:gh[pousr]_(?:[0-9]{1,12}_)?[A-Za-z0-9]{20,}+|github_pat_[A-Za-z0-9]{20,}+)"
        r"[A-Za-z0-9_]*+(?:\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+)?",
        accept=varied,
    ),
    TokenDetector(
        kind="gitlab-token",
        what="GitLab tokens (`glpat-` and its kin)",
        anchors=("glpat-", "gldt-", "glrt-", "glptt-", "glft-", "glimt-", "glagent-", "glsoat-", "glcbt-", "glrtr-"),
        pattern=EDGE + r"gl[a-z]{2,5}-(?:t[0-9]_)?[A-Za-z0-9_-]{20,}+(?:\.[0-9a-z]{2}\.[0-9a-z]{9})?",
        accept=lambda token: random_looking(token.partition("-")[2]),
    ),
    TokenDetector(
        kind="slack-token",
        what="Slack tokens (`xoxb-` and its kin, `xapp-`)",
        anchors=("xox", "xapp-"),
        pattern=r"(?:xoxe\.)?xox[a-eprs]-[A-Za-z0-9%-]{11,}+|xapp-[0-9]-[A-Z0-9]{8,}+-[0-9]{8,}+-[A-Za-z0-9]{32,}+",
        accept=_has_digit,
    ),
    TokenDetector(
        kind="slack-webhook",
        what="the secret part of Slack webhook URLs",
        anchors=("hooks.slack",),
        pattern=r"hooks\.slack(?:-gov)?\.com\\?/(?:services|workflows|triggers)\\?/((?:[A-Za-z0-9/_-]|\\/){24,}+)",
        accept=random_looking,
    ),
    TokenDetector(
        kind="stripe-key",
        what="Stripe secret and restricted keys, live and test, and webhook secrets (`sk_live_`, `rk_live_`, `whsec_`)",
        anchors=("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),
        pattern=EDGE + r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+|whsec_[A-Za-z0-9+/]{24,}+={0,2}+)",
        accept=random_looking,
    ),
    TokenDetector(
        kind="openai-key",
        what="OpenAI keys, and others of the form `sk-…`",
        anchors=("sk-",),
        pattern=EDGE + r"sk-(?:(?:proj|svcacct|admin|service)-[A-Za-z0-9_-]{20,}+|[A-Za-z0-9]{32,}+)",
        accept=_openai,
    ),
    TokenDetector(
        kind="anthropic-key",
        what="Anthropic keys (`sk-ant-…`)",
        anchors=("sk-ant-",),
        pattern=EDGE + r"sk-ant-[A-Za-z0-9_-]{24,}+",
        accept=_anthropic,
    ),
    TokenDetector(
        kind="openrouter-key",
        what="OpenRouter keys (`sk-or-v1-…`)",
        anchors=("sk-or-v",),
        pattern=EDGE + r"sk-or-v[0-9]-[0-9a-f]{64}",
        accept=varied,
    ),
    TokenDetector(
        kind="npm-token",
        what="npm tokens (`npm_…`)",
        anchors=("npm_",),
        pattern=EDGE + r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])",
        accept=random_looking,
    ),
    TokenDetector(
        kind="pypi-token",
        what="PyPI tokens (`pypi-…`)",
        anchors=("pypi-AgE",),
        pattern=r"pypi-AgE[A-Za-z0-9_-]{50,}+",
    ),
    TokenDetector(
        kind="sendgrid-key",
        what="SendGrid keys (`SG.…`)",
        anchors=("SG.",),
        pattern=EDGE + r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])",
        accept=random_looking,
    ),
    TokenDetector(
        kind="twilio-key",
        what="Twilio API keys (`SK` and 32 hexadecimal digits)",
        anchors=("SK",),
        pattern=EDGE + r"SK[0-9a-f]{32}(?![A-Za-z0-9])",
        accept=varied,
    ),
    TokenDetector(
        kind="azure-storage-key",
        what="Azure storage and service bus keys (`AccountKey=…`, `SharedAccessKey=…`)",
        anchors=("ccount", "CCOUNT", "hared", "HARED"),
        pattern=r"(?i:ccount[_-]?key|hared[_-]?access[_-]?key)"
        + _ASSIGNED
        + rf"({_BASE64_CHARACTER}{{86}}{_PADDING}{{2}}|{_BASE64_CHARACTER}{{43}}{_PADDING})(?![A-Za-z0-9+/=])",
        accept=varied,
        named=True,
    ),
    TokenDetector(
        kind="huggingface-token",
        what="Hugging Face tokens (`hf_…`)",
        anchors=("hf_",),
        pattern=EDGE + r"hf_[A-Za-z0-9]{34}(?![A-Za-z0-9])",
        accept=random_looking,
    ),
    TokenDetector(
        kind="digitalocean-token",
        what="DigitalOcean tokens (`dop_v1_`, `doo_v1_`, `dor_v1_`)",
        anchors=("dop_v1_", "doo_v1_", "dor_v1_"),
        pattern=r"do[por]_v1_[0-9a-f]{64}(?![A-Za-z0-9])",
        accept=varied,
    ),
    TokenDetector(
        kind="databricks-token",
        what="Databricks tokens (`dapi…`)",
        anchors=("dapi",),
        pattern=EDGE + r"dapi[0-9a-f]{32}(?:-[0-9])?(?![A-Za-z0-9])",
        accept=varied,
    ),
    TokenDetector(
        kind="docker-token",
        what="Docker Hub tokens (`dckr_pat_`, `dckr_oat_`)",
        anchors=("dckr_pat_", "dckr_oat_"),
        pattern=r"dckr_[po]at_[A-Za-z0-9_-]{27,}+",
        accept=random_looking,
    ),
    TokenDetector(
        kind="shopify-token",
        what="Shopify tokens (`shpat_` and its kin)",
        anchors=("shpat_", "shpca_", "shppa_", "shpss_"),
        pattern=EDGE + r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}(?![A-Za-z0-9])",
        accept=varied,
    ),
    TokenDetector(
        kind="vault-token",
        what="HashiCorp Vault tokens (`hvs.`, `hvb.`, `hvr.`)",
        anchors=("hvs.", "hvb.", "hvr."),
        pattern=EDGE + r"hv[sbr]\.[A-Za-z0-9_-]{24,}+",
        accept=random_looking,
    ),
    TokenDetector(
        kind="age-key",
        what="age secret keys (`AGE-SECRET-KEY-1…`)",
        anchors=("AGE-SECRET-KEY-1",),
        pattern=r"AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}(?![A-Z0-9])",
        accept=varied,
    ),
)
"""One detector for each kind of token with a beginning of its own."""
