# SPDX-License-Identifier: Apache-2.0
"""What tests of reports share."""


def with_frames(result):
    """Puts the frames, which the JSON holds once, into the stacks that name them by number."""
    for rows in result.values():
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and "stack" in row:
                row["stack"] = [result["frames"][number] for number in row["stack"]]
    return result
