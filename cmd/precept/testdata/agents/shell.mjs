// What every program here shares: its words, its packages, and the one tool that it offers.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';

export const tasks = process.argv.slice(2);
export const base = process.env.BASE_URL + '/v1';
export const api = process.env.API;
export const load = createRequire(process.env.MODULES + '/');
export const schema = { type: 'object', properties: { command: { type: 'string' } }, required: ['command'], additionalProperties: false };

export function shell({ command }) {
  const done = spawnSync('sh', ['-c', command], { encoding: 'utf8', cwd: process.env.WORK });
  return `${done.stdout}${done.stderr}\nExit code: ${done.status}`;
}
