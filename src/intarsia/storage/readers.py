"""The users who may read some files, so that a copy of their values is readable by no one else."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

#: The owner that the system shows for users that it cannot map, as in a container. Two of them may differ.
UNMAPPED_USER = 65534


@dataclass(frozen=True)
class Readers:
    """The users who may read all of some files, besides their owners.

    Attributes:
        group: Whether the members of the group may read them.
        others: Whether users who are not in the group may.
        gid: The group; None if it makes no difference.
        uid: The owner of all of them; None if there are several, or the owner of a copy does not matter.
    """

    group: bool = False
    others: bool = False
    gid: int | None = None
    uid: int | None = None

    @classmethod
    def of(cls, files: Iterable[str], folders: Iterable[str], passed: Iterable[str] = ()) -> Readers:
        """Return the users who may read local files and list their folders.

        Args:
            files: The files; missing ones are skipped.
            folders: The folders that contain them.
            passed: Further folders on the way to them, which need not be listed.
        """
        group = others = True
        groups, owners = set(), set()
        for paths, needed in ((files, 4), (folders, 5), (passed, 1)):
            for path in paths:
                try:
                    status = os.stat(path)
                except FileNotFoundError:
                    continue
                of_group, of_others = (status.st_mode >> shift & needed == needed for shift in (3, 0))
                if needed != 1:
                    owners.add(status.st_uid)
                if not (of_group and of_others):
                    groups.add(status.st_gid)
                    group, others = group and of_group, others and of_others
        (uid,) = owners if len(owners) == 1 else (None,)
        if len(groups) > 1:  # permission bits have one group
            return cls(uid=uid)
        (gid,) = groups or (None,)
        return cls(group, others, gid, None if uid == UNMAPPED_USER else uid)

    @property
    def new_file_mode(self) -> int:
        """The mode with which a file is created; it is private until `apply` if its group matters."""
        return 0o644 if self.gid is None and self.group else 0o600

    @property
    def new_folder_mode(self) -> int:
        """As `new_file_mode` for a folder."""
        return 0o755 if self.gid is None and self.group else 0o700

    def apply(self, fd: int) -> None:
        """Set the group, the mode and the owner of a new file or folder, as far as the system allows.

        Where it does not allow the group, the file or folder remains private.

        Args:
            fd: Its descriptor.
        """
        status = os.fstat(fd)
        with contextlib.suppress(OSError):
            if self.gid is not None:
                if status.st_gid != self.gid:
                    os.fchown(fd, -1, self.gid)
                os.fchmod(fd, self._mode_of(status))
        with contextlib.suppress(OSError):  # only the administrator may
            if self.uid is not None and self.uid != status.st_uid:
                os.fchown(fd, self.uid, -1)

    def _mode_of(self, status: os.stat_result) -> int:
        readable = 0o5 if stat.S_ISDIR(status.st_mode) else 0o4
        mode = stat.S_IMODE(status.st_mode)
        return mode | self.group * readable << 3 | self.others * readable

    def narrow(self, fd: int) -> None:
        """Withdraw the permissions of users who are not readers from an existing file or folder.

        Args:
            fd: Its descriptor.

        Raises:
            PermissionError: If it belongs to another user.
        """
        status = os.fstat(fd)
        is_same_group = self.gid is None or self.gid == status.st_gid
        denied = 0 if self.group and is_same_group else stat.S_IRWXG
        denied |= 0 if self.others and is_same_group else stat.S_IRWXO
        if status.st_mode & denied:
            os.fchmod(fd, stat.S_IMODE(status.st_mode) & ~denied)
