"""Topics in and out of Spark, beside what Spark itself can do here: `python -m bench --only spark`.

    rounds ─▶ both brokers with a million messages ─▶ child `work` at local[2] ─▶ lines of JSON
    work   ─▶ reading · storing · streaming · sinking, each with the `ceilings` of the same session
    page   ─▶ a table with the goals

A ceiling is the same work with everything of ours taken out: batches that lie ready instead of being pulled
and decoded, a sink that drops its rows. What Spark's transport costs is in both.
"""
