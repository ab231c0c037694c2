"""Snakemake's own linter, every finding an error but those that are so on purpose."""

import re
import subprocess
import sys

ON_PURPOSE = {
    # The user's own torch is what is measured: no rule may bring another.
    "Specify a conda environment or container for each rule.",
}


def main() -> int:
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--lint"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    titles = re.findall(r"^    \* (.+?):?$", done.stdout, re.MULTILINE)
    if "Lints for" not in done.stdout and "Congratulations" not in done.stdout:
        print(done.stdout)
        return 1
    unwanted = [title for title in titles if title.rstrip(":") not in ON_PURPOSE]
    if unwanted:
        print(done.stdout)
    print(f"snakemake --lint: {len(titles)} findings, {len(unwanted)} of them unwanted")
    return bool(unwanted)


if __name__ == "__main__":
    sys.exit(main())
