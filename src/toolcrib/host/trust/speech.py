"""Turns of phrase by which a description speaks to a model instead of describing a tool.

They are hints for whoever reviews a tool. Nobody can list all such phrases, so nothing is allowed
because none was found.
"""

from __future__ import annotations

import re

Phrase = tuple[str, re.Pattern[str]]


def _any(words: str) -> str:
    return f"(?:{'|'.join(words.split())})"


def _phrase(what: str, *parts: str) -> Phrase:
    """A phrase whose parts follow each other, `~` standing for a few words between them."""
    pattern = "".join(parts).replace("~", ".{0,60}?")
    return what, re.compile(pattern, re.IGNORECASE | re.DOTALL | re.MULTILINE)


_RULES = _any("instruction rule prompt guideline direction message context polic restriction")
_WHOM = rf"(?:(?:the|your|any|all|this)\s+)*{_any('user human person operator people anyone')}"
_WHO = rf"(?:you|the\s+{_any('model assistant agent ai llm')})"
_SECRETS = _any(
    r"\.ssh\b \bid_(?:rsa|ed25519) \.env\b \.aws\b \.netrc\b /etc/(?:passwd|shadow) "
    r"\bmcp\.json private\s+key (?:api|access)[\s_-]?(?:key|token)s?\b credentials?\b "
    r"passwords?\b (?:chat|conversation|message)\s+(?:history|log) system\s+prompt "
    r"environment\s+variables"
)
_TAKING = _any("read send include pass upload attach append provide add copy put paste post")
_BARS = r"(?:instead\s+of|rather\s+than|replaces?|supersedes?|in\s+place\s+of|prefer\s+this)"

SPEECH: tuple[Phrase, ...] = (
    _phrase(
        "tells the model to drop its instructions",
        rf"\b{_any('ignore disregard forget override bypass discard')}\b~",
        rf"\b{_any('previous prior above earlier preceding existing other all any your')}\b~",
        _RULES,
    ),
    _phrase(
        "tells the model to hide something",
        r"\b(?:do\s+not|don.?t|never|avoid|without)\b~",
        rf"\b{_any('tell mention inform reveal notif show alert ask warn disclos display')}\w*~",
        rf"\b{_WHOM}\b",
    ),
    _phrase(
        "tells the model to hide something",
        rf"\b{_any('silently secretly covertly')}\s+",
        rf"{_any('send read cop upload post forward includ pass add call run writ log stor')}",
    ),
    _phrase(
        "commands the model",
        rf"\b{_WHO}\s+(?:must|should|shall|have\s+to|need\s+to|are\s+required\s+to)\s+",
        rf"{_any('always first also never immediately now include read call use send pass')}\b",
    ),
    _phrase(
        "commands the model",
        r"\b(?:before|after|whenever|every\s+time)\b~",
        r"\b(?:us|call|invok|run|runn|execut)(?:e|es|ing)?\b~\btools?\b~",
        rf"\b{_any('must always first read call send invoke run')}\b",
    ),
    _phrase(
        "claims to speak for the system",
        rf"<\s*/?\s*{_any('system important instructions? secret assistant admin')}\s*>",
        r"|\[/?INST\]|<\|[a-z_]+\|>|^\s*\#{0,4}\s*(?:system|assistant)\s*:",
        rf"|\bsystem\s+{_any('message override notice prompt')}\b",
        r"|\bdeveloper\s+mode\b|\byou\s+are\s+now\b",
    ),
    _phrase("asks for secrets", rf"\b{_TAKING}\b~{_SECRETS}"),
    _phrase(
        "asks for secrets", rf"\b{_any('forward cat get fetch dump leak collect')}\b~{_SECRETS}"
    ),
    _phrase(
        "sends data elsewhere",
        rf"\b{_any('send post upload forward exfiltrat transmit report bcc cc')}\w*\b~",
        r"(?:https?://|\b[\w.+-]{1,64}@[\w-]+\.\w+)",
    ),
    _phrase(
        "speaks against other tools",
        rf"\b(?:{_BARS}|(?:do\s+not|don.?t|never)\s+use)\b~",
        rf"\b{_any('other any all every builtin built-in existing native tools?')}\b",
    ),
)
"""What each phrase does, and how it is known."""
