"""One run of a job, step by step: recover, plan, claim, execute, publish, commit, report."""
