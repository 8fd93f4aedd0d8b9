"""What simulator --hashes prints, for the scripts beside this file."""
import subprocess
import sys


def of_seeds(command, environment=None):
    """Runs a simulator and returns {seed: hash}. Ends this process if that fails or prints none."""
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = {}
    for line in run.stdout.splitlines():
        words = line.split()
        if len(words) == 4 and words[0] == "seed" and words[2] == "hash":
            found[int(words[1])] = words[3]
    if run.returncode != 0 or not found:
        sys.exit(f"{sys.argv[0]}: {' '.join(command)} failed ({run.returncode}):\n{run.stdout[-4000:]}")
    return found


def report(seeds, one, other, names):
    """Prints which of the seeds have another hash in `one` than in `other`, or none, and how many. True: none has."""
    differing = [seed for seed in seeds if one.get(seed) is None or one[seed] != other.get(seed)]
    for seed in differing:
        print(f"seed {seed}: {one.get(seed)} {names[0]}, {other.get(seed)} {names[1]}")
    print(f"{len(seeds)} seeds compared, {len(differing)} differ")
    return not differing
