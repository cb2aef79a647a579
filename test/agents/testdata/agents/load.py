"""Runs one of these programs fifty times in parallel: load.py PROGRAM WORDS... The imports are loaded once, before the forks."""
import ast
import os
import sys
import traceback

program = sys.argv[1]
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(program))
with open(program) as f:
    tree = ast.parse(f.read(), program)
for node in ast.walk(tree):
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        try:
            exec(compile(ast.Module([node], []), program, "exec"), {})
        except ImportError:
            pass  # it is another API's, and not imported then
code, children = compile(tree, program, "exec"), []
for _ in range(int(os.environ["LOAD"])):
    child = os.fork()
    if child:
        children.append(child)
        continue
    try:
        exec(code, {"__name__": "__main__", "__file__": program})
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)
sys.exit(sum(os.waitpid(child, 0)[1] != 0 for child in children) > 0)
