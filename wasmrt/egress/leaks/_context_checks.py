"""Checks that read the text around a candidate, because `name = value` may be a secret, code or prose."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from wasmrt.egress.leaks._value_checks import (
    CHECKS,
    decode_unpadded_base64,
    has_sequence,
    is_placeholder,
    measure_entropy,
)

_QUOTES = frozenset(b"\"'`")
_ENDS = frozenset(b" \t\r\n\"'`,;)}]&<>|\\")

# `re` compiles each expression on first use. Compiling all of them takes 2.5 ms, and most texts need none.
_INNOCENT_NAMES = (
    rb"(?i)hash|sha[0-9_]|sha\b|md5|digest|checksum|integrity|fingerprint|public|pubkey|[_\-.]id\b|keyid|key_id|uuid"
    rb"|guid|keyboard|keystone|keyword|primary|foreign|author|tokeniz|tokenis|token_?type|token_?url|cache_?key"
    rb"|sort_?key|partition|csrf|xsrf|nonce|etag|version|revision|commit|signature|license_?key_?id|key_?name|passwordfile"
    rb"|monkey|hotkey|keycode|key_?code|keypress|certificate|thumbprint|filename|file_?path|_path|_dir|_url\b|_uri\b"
    rb"|keystore|key_?vault|keying|bucket|schema|keychain|key_?pair|key_?ring|key_?size|name$|[a-z0-9]I[dD]$|[_\-.]I[dD]$"
    rb"|_enc$|_alg$|algorithm$|_method$|_format$|_scopes?$|_kind$|_mode$|::|arn$"
    rb"|(?:change|request|client|idempotency|continuation|next|page|sync|resume|update|start|marker|cancellation)_?token"
    rb"|endpoint|secret_?name|secretname|secret_?ref|selector"
    rb"|site_?key|publishable|react|(?:row|content|page|form|search|search_?api)[_\-]?key|(?:form|theme|patrol|watch)_?token"
    rb"|authenticity|request_?verification|view_?state|^engine_?key$"
    rb"|^data-(?!api|access|auth|secret|private)[a-z\-]*(?:keys?|token)$|gtm_auth"
)
_PASSWORD_NAMES = rb"(?i)passw|pwd|passphrase|passwd"
_UUID = rb"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_HEX = rb"(?:0x)?[0-9a-fA-F]+"
_CODE = (
    rb"[a-z]+://.*|/.*|\.\.?/.*|[@$%].*|0x[0-9a-fA-F]{1,16}|.*aws4_request.*"
    rb"|[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+"
    rb"|.*\.(?:com|org|net|io|py|js|json|ya?ml|txt|html|md|pem|key|crt)"
    rb"|NRBR-.*|NRJS-.*|pk_(?:live|test)_.*|pk\.eyJ.*|.*ANBgkqhkiG9w0BAQEFAAOC.*"
)
"""An expression for values that are not secret: URLs, paths, variables, numbers, attributes, file names, keys in public
pages, and public keys of RSA (RFC 8017, appendix A.1)."""
_QUERY_KEYS = rb"(?i)[?&;]keys?$"
"""A parameter of a page's link. Its name alone does not indicate a credential."""
_GIGYA_SCRIPT = rb"(?i)/gigya\.js\?api_?key$"
"""The address of Gigya's script, with the key of a site, which its documentation puts into every page."""
_NAMED_UUID = rb"(?i)[^-]-[0-9a-f]{8}-[0-9a-f]{4}-[35][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
"""A word and a UUID that is not random, because it is the hash of a name (RFC 9562, sections 5.3 and 5.5)."""
_SEARCH_KEY = rb"[0-9a-f]{32}"
_SEARCH_NEARBY = 120
"""Number of bytes before and after a search key of Algolia in which the name of the index is expected."""
_COMMON_PASSWORDS = frozenset(
    b"password passw0rd password1 password123 p@ssw0rd p@ssword pass1234 pass word secret test test123 test1234 admin"
    b" admin123 root guest user username changeit letmein qwerty 12345678 123456 none null true false string required"
    b" optional undefined disabled enabled hunter2 foo bar baz mypassword mysecret your token".split()
)


def count_transitions(value: bytes) -> int:
    """Return the number of changes between upper case, lower case, digits and other bytes. Random text has many."""
    kinds = [0 if 48 <= c <= 57 else 1 if 65 <= c <= 90 else 2 if 97 <= c <= 122 else 3 for c in value]
    return sum(a != b for a, b in pairwise(kinds))


def looks_random(value: bytes) -> bool:
    """Return whether a word looks random, unlike an identifier, a path or a sentence without spaces."""
    digits = sum(48 <= c <= 57 for c in value)
    letters = sum(97 <= c | 32 <= 122 for c in value)
    if not digits or letters < 2:
        return False
    floor = 3.0 if len(value) < 16 else 3.3 if len(value) < 24 else 3.5
    if re.fullmatch(_HEX, value):
        floor = 2.8
    return measure_entropy(value) >= floor and count_transitions(value) >= max(3, len(value) // 5)


_STRONG_NAMES = (
    rb"(?i)(?:api|access|auth|secret|private|client|app|encryption|signing|master|account)[_\-. ]?(?:key|token|secret)"
    rb"|secret|token|passw|pwd|passphrase|credential"
)


_WORDS = rb"[A-Z]?[a-z]{3,}|[A-Z]{3,}"
_VOWEL = rb"(?i)[aeiouy]"
_MUTTER = rb"(?i)[^aeiouy]{4}|[aeiou]{4}|[^aeiouy][^aeiouly]q|[jqvxz][bcdfghjkmnpqstvwxz]"
_SEGMENT = rb"[0-9A-Za-z+/=]+"


_KEY_NAMES = (
    rb"(?i)(?:api|access|auth|app|service|account|bearer|admin|user|bot)[_\-. ]?(?:key|token|secret)$"
    rb"|secret$|passw(?:or)?d$"
)
"""Names that stand for a credential even if the value is a UUID, or very long."""
_VARIABLE = rb"[A-Z][0-9A-Z_]+"
"""The name of an environment variable."""
_MOST_CHARS_OF_ANY_NAME, _MOST_CHARS = 160, 480


def _looks_spoken(word: bytes) -> bool:
    return len(word) > 3 and re.search(_VOWEL, word) is not None and not re.search(_MUTTER, word)


def is_made_of_words(value: bytes) -> bool:
    """Return whether a value consists of words or numbers, like an identifier or a version."""
    words = sum(len(w) for w in re.findall(_WORDS, value) if _looks_spoken(w))
    if 2 * words >= len(value):
        return True
    mixed = 0
    for part in re.findall(_SEGMENT, value):
        if count_transitions(part) > (0 if part.isalpha() else 4 if part.isdigit() else 1):
            mixed += len(part)
    return mixed < min(12, len(value) // 2 + 1)


def looks_assigned(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether `data[start:end]` looks like a secret that is assigned to the name before it.

    `begin` is the start of the rule's keyword in this name.
    """
    value = data[start:end].rstrip(b".,;")
    if not 8 <= len(value) <= _MOST_CHARS or data[end - 3 : end] == b"..." or not _ends_at_delimiter(data, start, end):
        return False
    quoted = data[start - 1] in _QUOTES
    random = re.fullmatch(_UUID, value) is not None or (looks_random(value) and not is_made_of_words(value))
    if not random and not looks_chosen(value):
        return False
    if re.fullmatch(_CODE, value) or has_sequence(value, 8) or is_placeholder(value):
        return False
    name, operator = _find_name(data, begin, start)
    spelled = data[begin:start].rstrip(b" \t\"'`=:>(").lower()
    if len(spelled) >= 8 and spelled in value.lower():
        return False  # an entry of a table that maps a name to a longer name
    if len(name) > 80 or re.search(_INNOCENT_NAMES, name) or (operator in b",(" and not quoted):
        return False
    if re.search(_QUERY_KEYS, data[max(0, begin - 1) : begin] + name) and not quoted:
        return False
    if re.search(_GIGYA_SCRIPT, data[max(0, begin - 16) : start - 1]) or re.search(_NAMED_UUID, value):
        return False
    nearby = data[max(0, begin - _SEARCH_NEARBY) : end + _SEARCH_NEARBY]
    if re.fullmatch(_SEARCH_KEY, value) and b"indexName" in nearby:
        return False
    if len(value) > _MOST_CHARS_OF_ANY_NAME and re.search(_KEY_NAMES, name) is None:
        return False
    return _name_suffices(name, value, quoted=quoted, random=random)


def _ends_at_delimiter(data: bytes, start: int, end: int) -> bool:
    """Return whether the value ends at a delimiter, and not in the middle of a sentence or an expression."""
    if end >= len(data):
        return True
    quoted = start > 0 and data[start - 1] in _QUOTES
    return data[end] in _QUOTES or data[end] == 0x5C if quoted else data[end] in _ENDS


def _name_suffices(name: bytes, value: bytes, *, quoted: bool, random: bool) -> bool:
    """Return whether a name and its value indicate a secret. For a vaguer name, the value must be more random."""
    secretive = re.search(_PASSWORD_NAMES, name) is not None
    if not random:
        return secretive and (quoted or not is_made_of_words(value))
    if re.fullmatch(_UUID, value):
        return (quoted or re.fullmatch(_VARIABLE, name) is not None) and re.search(_KEY_NAMES, name) is not None
    if re.search(_STRONG_NAMES, name) is None:
        shortest = 32 if name.lower() == b"key" else 20  # pages give elements and list entries a `key`
        return len(value) >= shortest and count_transitions(value) >= len(value) // 4
    return len(value) >= 16 or secretive or (len(value) >= 10 and count_transitions(value) >= 5)


def looks_chosen(value: bytes) -> bool:
    """Return whether a value looks like a password that a person has chosen, and not like a word."""
    lowered = value.lower()
    if lowered in _COMMON_PASSWORDS or is_placeholder(value) or len(value) < 8 or b" " in value:
        return False
    kinds = (
        any(48 <= c <= 57 for c in value)
        + any(65 <= c <= 90 for c in value)
        + any(97 <= c <= 122 for c in value)
        + any(c < 48 or 57 < c < 65 or 90 < c < 97 or c > 122 for c in value if c not in b"_.-")
    )
    return kinds >= 3 and measure_entropy(value) >= 2.75


_NAME_END = re.compile(rb"[\"'`\])>\\]*\s*(=>|[:?.+]*=|:|,|>|\(|\|)")


def _find_name(data: bytes, begin: int, start: int) -> tuple[bytes, bytes]:
    """Return the complete name before a value, and the assignment operator between them.

    The rule's keyword, at `begin`, may be only the end of the name, as in `my_api_token`.
    """
    low = begin
    while low > 0 and begin - low < 64 and (data[low - 1 : low].isalnum() or data[low - 1] in b"_-.:"):
        low -= 1
    name = data[low:start]
    found = _NAME_END.search(name, begin - low)
    return (name[: found.start()], found.group(1)) if found else (name, b"=")


def is_password(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether a value that is written where a password belongs is neither a placeholder nor a variable."""
    del begin
    value = data[start:end]
    lowered = value.lower()
    if lowered in _COMMON_PASSWORDS or is_placeholder(value) or value[:1] in b"$%<{[*(@":
        return False
    return len(set(lowered)) >= 3 and (b"(" not in value)


_ENTITY_END = rb"&#?[0-9A-Za-z]{2,8};\Z"


def is_pair_password(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether a value after a semicolon is a password. The semicolon at `begin` may end an HTML entity."""
    if re.search(_ENTITY_END, data[max(0, begin - 10) : begin + 1]):
        return False
    return is_password(data, begin, start, end)


_SENTRY_PROJECT = rb"@(?:o[0-9]+\.ingest\.(?:us\.|de\.)?)?sentry\.io/[0-9]"


def is_url_token(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether the user in a URL is a token. The key of a Sentry DSN is not, because it is public."""
    del begin
    value = data[start:end]
    if is_placeholder(value) or measure_entropy(value) < 3 or re.match(_SENTRY_PROJECT, data[end : end + 64]):
        return False
    return CHECKS["letter-digit"](value)


_PAGE_JWT = rb"(?i)collection-?meta(?:[\"']|&quot;)?\s*[:=]\s*(?:[\"']|&quot;)?\Z"


def is_secret_jwt(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether a value is a JWT that grants access.

    Livefyre's `collectionMeta` is not: this JWT is part of a page, and only signs the page's title and address.
    """
    before = data[max(0, begin - 40) : start]
    return CHECKS["jwt"](data[start:end]) and re.search(_PAGE_JWT, before) is None


_EXAMPLE_USERS = rb"(?i)//(?:user|username|usr|login|name|me|foo|bob|alice|u)?:"
_EXAMPLE_PASSWORDS = (
    rb"(?i)(?:[a-z]{1,4}%20)?(?:pass(?:w(?:or)?d|wd|phrase)?|pw|pwd|secret|token|p|x|test|foo|bar|baz|port|key|hunter2"
    rb"|pass?word[0-9]*|api_?key)"
)


def is_url_password(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether the password of a URL looks real, unlike the placeholders that are common in manuals."""
    value = data[start:end]
    if re.fullmatch(_EXAMPLE_PASSWORDS, value) or not is_password(data, begin, start, end):
        return False
    host = data[end + 1 : end + 24].lower()
    if re.search(_EXAMPLE_USERS, data[begin:start]) and host.startswith((b"example", b"host", b"server", b"localhost")):
        return looks_chosen(value) or looks_random(value)
    return len(value) >= 6 or not value.isalpha()


def is_bearer(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether the text after an authentication scheme is random, and not a word, a variable or a placeholder."""
    del begin
    value = data[start:end].rstrip(b"=.")
    if is_placeholder(value) or re.fullmatch(_CODE, value) or value.isalpha():
        return False
    return re.fullmatch(_UUID, value) is not None or (looks_random(value) and not is_made_of_words(value))


def is_curl_user(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether `user:password` after curl's option contains neither a variable nor a placeholder."""
    user, _, password = data[start:end].translate(None, b"\"'").partition(b":")
    if user.lower() == password.lower() or b"$" in user or user[:1] == b"<" or user[:1] == b"[":
        return False
    secret = (password or user).strip(b"{}")
    if len(secret) < (4 if user and password else 10) or re.fullmatch(_EXAMPLE_PASSWORDS, secret):
        return False
    return not is_placeholder(secret) and secret[:1] not in b"$%<[*(" and secret.lower() not in _COMMON_PASSWORDS


def is_curl_header(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether a value in a header for curl may be a credential.

    Short values are accepted too, because prose rarely contains headers for curl.
    """
    del begin
    value = data[start:end]
    if is_placeholder(value) or value.isalpha():
        return False
    inner = decode_unpadded_base64(value) if len(value) < 40 else None
    if inner is not None and inner.isascii() and b":" in inner:
        return True
    return any(48 <= c <= 57 for c in value) and measure_entropy(value) >= 2.75


def is_kubernetes_data(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether a value under `data:` is base64, and not a word or a template."""
    del begin
    value = data[start:end]
    inner = decode_unpadded_base64(value)
    return inner is not None and len(inner) >= 6 and not value.isalpha()


def is_aws_secret(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether forty characters of base64 are not a path, a hash or a part of a longer text."""
    del begin
    value = data[start:end]
    if end < len(data) and data[end] in b"+/=":
        return False
    if value.count(b"/") > 4 or is_made_of_words(value) or is_placeholder(value):
        return False
    return value.lower() != value and any(48 <= c <= 57 for c in value) and count_transitions(value) >= 10


def is_pem(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether a block contains at least 64 characters of base64."""
    del begin
    body = data[start:end].split(b"-----", 2)[-1]
    return len(re.sub(rb"\\[nr]|[^0-9A-Za-z+/=]", b"", body.split(b"-----")[0])) >= 64


_NOT_AN_ACCOUNT_KEY = _INNOCENT_NAMES + rb"|sig\b|signed|base64|cert|hmac|modulus|encrypted|cipher|proof"


def is_bare_key(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether 64 bytes in base64 are a separate value: not a hash, a signature or part of a longer text."""
    del begin
    before, newline, lead = data[max(0, start - 100) : start].rpartition(b"\n")
    if data[end : end + 1] == b"=" or lead[-1:] in (b"+", b"/", b"-", b"%") or re.search(_NOT_AN_ACCOUNT_KEY, lead):
        return False
    if newline and not lead and re.search(rb"[0-9A-Za-z+/=]{40}\r?\Z", before):
        return False  # the last line of a longer base64 text
    if (decode_unpadded_base64(data[start:end]) or b"").isascii():
        return False  # encoded text, such as the address of a link
    return measure_entropy(data[start:end]) >= 4.8 and not is_placeholder(data[start:end])


def has_secret_name(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether a value contains a digit, and its name is not one for published values, such as a site key."""
    name, _ = _find_name(data, begin, start)
    return re.search(_INNOCENT_NAMES, name) is None and re.search(rb"[0-9]", data[start:end]) is not None


def has_no_words(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether a value has letters of both cases and digits, and does not consist of words, as a path does."""
    del begin
    value = data[start:end]
    return CHECKS["mixed"](value) and not is_made_of_words(value)


CONTEXT_CHECKS: dict[str, Callable[[bytes, int, int, int], bool]] = {
    "assigned": looks_assigned,
    "password": is_password,
    "pair-password": is_pair_password,
    "url-password": is_url_password,
    "url-token": is_url_token,
    "secret-jwt": is_secret_jwt,
    "bearer": is_bearer,
    "curl-user": is_curl_user,
    "curl-header": is_curl_header,
    "kubernetes-data": is_kubernetes_data,
    "aws-secret": is_aws_secret,
    "pem": is_pem,
    "bare-key": is_bare_key,
    "secret-name": has_secret_name,
    "no-words": has_no_words,
}
"""Checks by name. The arguments of a check are `(data, begin, start, end)`: the candidate is `data[start:end]`, and the
match that includes the candidate's name starts at `begin`."""
