# SPDX-License-Identifier: Apache-2.0
"""ci/judge, action.yml and ci/gitlab.yml on the projects of examples/ci, each in two commits: one that is fine, one that is not.

The runners of GitHub and GitLab are not here: what their files give to a shell is given to a shell, with the variables that they would
set, and what they keep between jobs is kept by the test."""

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree

import pytest

from compiled import WAIT_SECONDS
from sessions import ROOT

yaml = pytest.importorskip("yaml")
TESTS = {
    "ctest": ("cmake -B build && cmake --build build", "ctest --test-dir build"),
    "pytest": ("true", "PYTHONMALLOC=malloc PYTHONHASHSEED=0 python3 -m pytest -q -p no:cacheprovider -p no:xdist"),
    "cargo": ("cargo test --offline --no-run", "cargo test --offline"),
    "go": ("go test -c -o upper.test", "./upper.test"),
}
BLAMED = {"ctest": "tokens.c:15", "pytest": "inventory.py", "cargo": "lib.rs:8", "go": "upper"}
IDENTITY = ["-c", "user.name=a", "-c", "user.email=a@example.com"]


@pytest.fixture
def project(scratch, heapgauge, clean_env):
    """project(kind): a repository with the first commit; run(line, **variables): a shell in it; regress(): the second commit."""

    class Project:
        def begin(self, kind):
            shutil.copytree(ROOT / "examples" / "ci" / kind, scratch / kind)
            self.folder = scratch / kind
            self.git("init", "-q")
            self.commit()

        def git(self, *argv):
            subprocess.run(["git", *IDENTITY, *argv], cwd=self.folder, check=True, capture_output=True)

        def commit(self):
            self.git("add", "-A")
            self.git("commit", "-q", "-m", "one more")

        def regress(self):
            self.git("apply", "regression.patch")
            self.commit()

        def run(self, line, shell="sh", **variables):
            env = clean_env | {"PATH": f"{heapgauge.parent}:{os.environ['PATH']}", "HOME": os.environ["HOME"]} | variables
            argv = [shell, "-e", "-c", line]
            return subprocess.run(argv, cwd=self.folder, env=env, capture_output=True, text=True, timeout=WAIT_SECONDS)

    return Project()


@pytest.mark.parametrize("kind", TESTS)
def test_two_commits(project, kind):
    prepare, test = TESTS[kind]
    if not shutil.which(prepare.split()[0]):
        pytest.skip(f"{prepare.split()[0]} is not here")
    project.begin(kind)
    judge = f"{ROOT}/ci/judge results sh -ec '{test}'"
    for _ in "first", "unchanged":
        built = project.run(prepare)
        assert built.returncode == 0, built.stderr
        kept = project.run(judge, JUDGE_BASELINE="base.hg")
        assert kept.returncode == 0, kept.stdout + kept.stderr
        shutil.copy(project.folder / "results/run.hg", project.folder / "base.hg")
    project.regress()
    assert project.run(prepare).returncode == 0
    broken = project.run(judge, JUDGE_BASELINE="base.hg")
    assert broken.returncode == 1, broken.stdout + broken.stderr
    assert BLAMED[kind] in broken.stdout, broken.stdout
    verdict = xml.etree.ElementTree.parse(project.folder / "results/check.xml").getroot()
    assert int(verdict.get("failures")) >= 1
    summary = (project.folder / "results/summary.md").read_text()
    assert "### Since the baseline" in summary and BLAMED[kind] in summary
    assert "<svg" in (project.folder / "results/peak.svg").read_text()


def test_a_command_that_fails_keeps_its_status(project):
    project.begin("pytest")
    assert project.run(f"{ROOT}/ci/judge results sh -c 'exit 7'").returncode == 7
    done = project.run(f"{ROOT}/ci/judge results")
    assert done.returncode == 2 and "usage" in done.stderr


@pytest.fixture(scope="module")
def archive(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    argv = ["cpack", "--config", build / "CPackConfig.cmake", "-G", "TGZ", "-B", folder]
    subprocess.run(argv, check=True, capture_output=True, timeout=WAIT_SECONDS)
    (path,) = folder.glob("*.tar.gz")
    return path


def expand(text, values):
    """GitHub's ${{ }} expressions of the kind that action.yml has."""
    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: values[found[1]], str(text))


def test_the_action(project, archive, scratch):
    project.begin("ctest")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    values = {f"inputs.{name}": str(row.get("default", "")) for name, row in action["inputs"].items()}
    values |= {"inputs.run": "ctest --test-dir build", "inputs.archive": str(archive), "inputs.process": "_test"}
    values |= {f"github.{name}": "x" for name in ("server_url", "action_repository", "action_ref", "job", "sha")} | {"runner.os": "Linux"}
    kept = scratch / "cache"  # what actions/cache keeps between jobs

    def job(event):
        """The status of the job, and what it said; as the runner: the folder of results is new, the path is that of $GITHUB_PATH."""
        files = {name: scratch / name for name in ("GITHUB_PATH", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.write_text("")
        runner = {name: str(file) for name, file in files.items()}
        runner |= {"GITHUB_ACTION_PATH": str(ROOT), "RUNNER_TEMP": str(scratch), "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(project.folder)}
        shutil.rmtree(project.folder / "heapgauge-results", ignore_errors=True)
        assert project.run(TESTS["ctest"][0]).returncode == 0
        said, status = "", 0
        for step in action["runs"]["steps"]:
            if status and step.get("if") != "always()":
                continue
            if "event_name" in step.get("if", "") and event != "push":
                continue
            if "uses" in step:
                path = project.folder / expand(step["with"]["path"], values)
                if "restore" in step["uses"] and kept.exists():
                    path.parent.mkdir(exist_ok=True)
                    shutil.copy(kept, path)
                elif "save" in step["uses"]:
                    shutil.copy(path, kept)
                else:
                    assert "upload" not in step["uses"] or path.is_dir()
                continue
            env = runner | {name: expand(text, values) for name, text in step.get("env", {}).items()}
            env["PATH"] = ":".join([*files["GITHUB_PATH"].read_text().split(), os.environ["PATH"]])
            done = project.run(step["run"], shell="bash", **env)
            said, status = said + done.stdout + done.stderr, done.returncode
        return status, said, files["GITHUB_STEP_SUMMARY"].read_text()

    status, said, summary = job("push")
    assert status == 0 and "no baseline" in said and "## Heap" in summary, said
    status, said, _ = job("pull_request")
    assert status == 0 and "::notice title=heapgauge::" in said, said
    project.regress()
    status, said, summary = job("pull_request")
    assert status == 1, said
    assert "::error file=tokens.c,line=15,title=heapgauge::tokens_test  not freed at exit 43.0 KiB" in said, said
    assert "### Since the baseline" in summary
    assert (scratch / "heapgauge/bin/heapgauge").exists(), "it ran the installed one"


def test_the_gitlab_template(project, archive, scratch):
    project.begin("ctest")
    job = yaml.safe_load((ROOT / "ci/gitlab.yml").read_text())[".heapgauge"]
    variables = {name: str(value) for name, value in job["variables"].items()}
    variables |= {"JUDGE_RUN": "ctest --test-dir build", "JUDGE_PROCESS": "_test", "JUDGE_ARCHIVE": archive.as_uri()}
    variables |= {"CI_DEFAULT_BRANCH": "main"}
    script = "\n".join(job["before_script"] + job["script"])

    def run(branch):
        assert project.run(TESTS["ctest"][0]).returncode == 0
        return project.run(script, CI_COMMIT_BRANCH=branch, PATH=os.environ["PATH"], **variables)

    first = run("main")
    assert first.returncode == 0 and (project.folder / "heapgauge-baseline/run.hg").exists(), first.stdout + first.stderr
    assert run("topic").returncode == 0
    project.regress()
    broken = run("topic")
    assert broken.returncode == 1 and "tokens_split (tokens.c:15)" in broken.stdout, broken.stdout + broken.stderr
    assert (project.folder / job["artifacts"]["reports"]["junit"].replace("$JUDGE_FOLDER", variables["JUDGE_FOLDER"])).exists()
