package lesson

const gptmeSample = `---
match:
  keywords:
    - "git worktree add"
    - branch is already checked out
  session_categories: [code]
status: active
---

# Remove stale worktrees before adding one

## Rule
Run ` + "`git worktree prune`" + ` before adding a worktree for a branch that was used before.

## Context
When a branch is checked out in a directory that no longer exists.

## Detection
- the add fails

## Pattern
` + "```sh\ngit worktree prune\n# then\ngit worktree list\n```" + `

## Outcome
The add works.
`
