"""Write, run and serve MCP interceptors.

A plugin author imports this module only: decorators, hooks, results and errors. Whoever runs interceptors finds the
`Chain` here too. `midspan_sdk.mcp` binds both to the MCP SDK and is the only part that imports it.
"""

from midspan_sdk._asking import Asker, Question, Reply
from midspan_sdk._authoring import Bindings, Interceptor, interceptors_of, mutator, sink, validator
from midspan_sdk._chain import Chain
from midspan_sdk._contributions import Command, Problem, ServerRef, ServerResolver
from midspan_sdk._descriptor import Compat, Descriptor, Hook, PhasePriorities
from midspan_sdk._entries import ChainEntry, InterceptorOverrides
from midspan_sdk._exchange import Exchange
from midspan_sdk._invocation import Ask, Invocation, InvocationContext, Principal, State, ToolCatalog
from midspan_sdk._observers import DecisionRecord, EntryDecision, Observer
from midspan_sdk._outcome import AbortedAt, ChainExecutionResult, FailedResult, ValidationSummary
from midspan_sdk._results import (
    Answer,
    InterceptorResult,
    MutationResult,
    SinkResult,
    Suggestion,
    ValidationMessage,
    ValidationResult,
    allow,
    deny,
)
from midspan_sdk._sqlite_store import SQLiteStore
from midspan_sdk._store import MemoryStore, Store
from midspan_sdk.errors import (
    AskError,
    ChainError,
    DefinitionError,
    DuplicateInterceptorError,
    InterceptorFailedError,
    InterceptorTimeoutError,
    InvalidInvocationError,
    InvocationError,
    LostServerError,
    MidspanError,
    NotPlainError,
    PeerError,
    UnknownInterceptorError,
    UnknownNameError,
    UnmetNeedError,
)
from midspan_sdk.hookspecs import hookimpl

__all__ = [
    "AbortedAt",
    "Answer",
    "Ask",
    "AskError",
    "Asker",
    "Bindings",
    "Chain",
    "ChainEntry",
    "ChainError",
    "ChainExecutionResult",
    "Command",
    "Compat",
    "DecisionRecord",
    "DefinitionError",
    "Descriptor",
    "DuplicateInterceptorError",
    "EntryDecision",
    "Exchange",
    "FailedResult",
    "Hook",
    "Interceptor",
    "InterceptorFailedError",
    "InterceptorOverrides",
    "InterceptorResult",
    "InterceptorTimeoutError",
    "InvalidInvocationError",
    "Invocation",
    "InvocationContext",
    "InvocationError",
    "LostServerError",
    "MemoryStore",
    "MidspanError",
    "MutationResult",
    "NotPlainError",
    "Observer",
    "PeerError",
    "PhasePriorities",
    "Principal",
    "Problem",
    "Question",
    "Reply",
    "SQLiteStore",
    "ServerRef",
    "ServerResolver",
    "SinkResult",
    "State",
    "Store",
    "Suggestion",
    "ToolCatalog",
    "UnknownInterceptorError",
    "UnknownNameError",
    "UnmetNeedError",
    "ValidationMessage",
    "ValidationResult",
    "ValidationSummary",
    "allow",
    "deny",
    "hookimpl",
    "interceptors_of",
    "mutator",
    "sink",
    "validator",
]
