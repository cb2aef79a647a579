// Shared by every program here: arguments, packages, and the only tool. The libraries find the API by themselves, from
// OPENAI_BASE_URL or ANTHROPIC_BASE_URL.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';

export const tasks = process.argv.slice(2);
export const api = process.env.API;
export const load = createRequire(process.env.MODULES + '/');
export const schema = { type: 'object', properties: { command: { type: 'string' } }, required: ['command'], additionalProperties: false };

export function shell({ command }) {
  const done = spawnSync('sh', ['-c', command], { encoding: 'utf8', cwd: process.env.WORK });
  return `${done.stdout}${done.stderr}\nExit code: ${done.status}`;
}
