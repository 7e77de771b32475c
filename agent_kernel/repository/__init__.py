"""Git's words over immutable objects: commits, trees, branches, tags, logs, merges, garbage collection.

It stores bytes and knows nothing about the objects they come from. Modules load when a name of theirs is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_kernel.lazy_imports import import_lazily

if TYPE_CHECKING:
    from agent_kernel.repository.commits import NO_CHAT as NO_CHAT
    from agent_kernel.repository.commits import Author as Author
    from agent_kernel.repository.commits import Blob as Blob
    from agent_kernel.repository.commits import Cell as Cell
    from agent_kernel.repository.commits import Change as Change
    from agent_kernel.repository.commits import Commit as Commit
    from agent_kernel.repository.commits import Document as Document
    from agent_kernel.repository.commits import Entry as Entry
    from agent_kernel.repository.commits import Kind as Kind
    from agent_kernel.repository.commits import Manifest as Manifest
    from agent_kernel.repository.commits import ObjectId as ObjectId
    from agent_kernel.repository.commits import Tree as Tree
    from agent_kernel.repository.commits import Unsaved as Unsaved
    from agent_kernel.repository.commits import address as address
    from agent_kernel.repository.commits import encode as encode
    from agent_kernel.repository.commits import hex_of as hex_of
    from agent_kernel.repository.commits import person as person
    from agent_kernel.repository.commits import short as short
    from agent_kernel.repository.merge import Conflict as Conflict
    from agent_kernel.repository.objects import AtHand as AtHand
    from agent_kernel.repository.objects import Objects as Objects
    from agent_kernel.repository.objects import Output as Output
    from agent_kernel.repository.objects import Outputs as Outputs
    from agent_kernel.repository.objects import Pieces as Pieces
    from agent_kernel.repository.objects import Representation as Representation
    from agent_kernel.repository.objects import Writer as Writer
    from agent_kernel.repository.objects import digest_pieces as digest_pieces
    from agent_kernel.repository.objects import load_list as load_list
    from agent_kernel.repository.objects import pieces_of as pieces_of
    from agent_kernel.repository.objects import plan_cuts as plan_cuts
    from agent_kernel.repository.objects import read_blob as read_blob
    from agent_kernel.repository.objects import read_blob_into as read_blob_into
    from agent_kernel.repository.objects import read_outputs as read_outputs
    from agent_kernel.repository.objects import read_representation as read_representation
    from agent_kernel.repository.objects import store_blob as store_blob
    from agent_kernel.repository.objects import store_list as store_list
    from agent_kernel.repository.objects import store_outputs as store_outputs
    from agent_kernel.repository.objects import stream_cuts as stream_cuts
    from agent_kernel.repository.refs import ASIDE as ASIDE
    from agent_kernel.repository.refs import OF_KERNEL as OF_KERNEL
    from agent_kernel.repository.refs import Head as Head
    from agent_kernel.repository.refs import Holder as Holder
    from agent_kernel.repository.refs import check_ref_name as check_ref_name
    from agent_kernel.repository.repository import NameDiff as NameDiff
    from agent_kernel.repository.repository import Repository as Repository
    from agent_kernel.repository.repository import split_path as split_path
    from agent_kernel.repository.rewrite import ForgetReport as ForgetReport
    from agent_kernel.repository.rewrite import PruneReport as PruneReport
    from agent_kernel.repository.rewrite import Retention as Retention

__all__ = [
    "ASIDE",
    "NO_CHAT",
    "OF_KERNEL",
    "AtHand",
    "Author",
    "Blob",
    "Cell",
    "Change",
    "Commit",
    "Conflict",
    "Document",
    "Entry",
    "ForgetReport",
    "Head",
    "Holder",
    "Kind",
    "Manifest",
    "NameDiff",
    "ObjectId",
    "Objects",
    "Output",
    "Outputs",
    "Pieces",
    "PruneReport",
    "Repository",
    "Representation",
    "Retention",
    "Tree",
    "Unsaved",
    "Writer",
    "address",
    "check_ref_name",
    "digest_pieces",
    "encode",
    "hex_of",
    "load_list",
    "person",
    "pieces_of",
    "plan_cuts",
    "read_blob",
    "read_blob_into",
    "read_outputs",
    "read_representation",
    "short",
    "split_path",
    "store_blob",
    "store_list",
    "store_outputs",
    "stream_cuts",
]

_PACKAGE = "agent_kernel.repository"
_MODULES: dict[str, tuple[str, ...]] = {
    "commits": (
        "Author",
        "Blob",
        "Cell",
        "Change",
        "Commit",
        "Document",
        "Entry",
        "Kind",
        "Manifest",
        "NO_CHAT",
        "ObjectId",
        "Tree",
        "Unsaved",
        "address",
        "encode",
        "hex_of",
        "person",
        "short",
    ),
    "merge": ("Conflict",),
    "objects": (
        "Representation",
        "Output",
        "Outputs",
        "Pieces",
        "digest_pieces",
        "load_list",
        "pieces_of",
        "plan_cuts",
        "read_blob",
        "read_blob_into",
        "read_representation",
        "read_outputs",
        "store_blob",
        "store_list",
        "store_outputs",
        "stream_cuts",
        "AtHand",
        "Objects",
        "Writer",
    ),
    "refs": ("ASIDE", "Head", "Holder", "OF_KERNEL", "check_ref_name"),
    "repository": ("NameDiff", "Repository", "split_path"),
    "rewrite": ("ForgetReport", "PruneReport", "Retention"),
}
_HOME = {name: f"{_PACKAGE}.{module}" for module, names in _MODULES.items() for name in names}


__getattr__ = import_lazily(__name__, _HOME)
