# SPDX-License-Identifier: Apache-2.0
"""A job runner: failed jobs are kept as dead letters, to be shown to an operator."""
import sys
import time

dead_letters = []


class InvalidJob(Exception):
    pass


def validate(body, number):
    if number % 4 == 0:
        raise InvalidJob(f"job {number}: checksum mismatch")
    return len(body)


def run_job(number, template):
    body = template.format(number=number)
    try:
        return validate(body, number)
    except InvalidJob as error:
        dead_letters.append(error)
        return 0


def count_recent_failures():
    return sum(1 for error in dead_letters[-100:] if "checksum" in str(error))


def run(seconds):
    start = time.monotonic()
    template = "<job id='{number}'>" + "<input path='/data/in'/>" * 130 + "</job>"
    number = done = failures = 0
    while time.monotonic() - start < seconds:
        for _ in range(12):
            number += 1
            done += run_job(number, template)
        if number % 600 == 0:
            failures += count_recent_failures()
        time.sleep(0.01)
    return done >= 0


if __name__ == "__main__":
    sys.exit(0 if run(float(sys.argv[1]) if len(sys.argv) > 1 else 4.0) else 1)
