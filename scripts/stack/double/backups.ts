// The routes under /api/backups, as recorded, traps included.
import { createHash, randomBytes } from 'node:crypto';
import {
  createReadStream,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Archive,
  type BackupMeta,
  PROTECTED_KEYS,
  pack,
  restoreFiles,
  type Scope,
  signatureOf,
  unpack,
  workspaceStats,
} from './archive.ts';
import type { BackupJobs, CreateRequest } from './backup-jobs.ts';
import { type Answer, type Call, EventStream, HttpError, mustHave, ok, readBody, readJson } from './http.ts';
import type { Store } from './store.ts';

const RESTORE_MS = 500;
const PENDING_NAME = /^tmp\w+\.upload_tmp\.trust_(foreign|legacy|none)$/;

const withoutSignature = (meta: BackupMeta): BackupMeta => ({ ...meta, signature: null });

function flag(body: Record<string, unknown>, key: string, fallback: boolean): boolean {
  const value = body[key];
  return typeof value === 'boolean' ? value : fallback;
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

function scopeOf(body: Record<string, unknown>): Scope {
  return {
    include_agents: flag(body, 'include_agents', true),
    include_global_config: flag(body, 'include_global_config', true),
    include_secrets: flag(body, 'include_secrets', false),
    include_skill_pool: flag(body, 'include_skill_pool', true),
  };
}

function mustBeOneOf(field: string, value: unknown, allowed: readonly [string, string]): void {
  if (value === undefined || value === null || allowed.includes(String(value))) return;
  const expected = allowed.map((each) => `'${each}'`).join(' or ');
  const detail = { type: 'literal_error', loc: ['body', field], msg: `Input should be ${expected}`, input: value };
  throw new HttpError(422, [{ ...detail, ctx: { expected } }]);
}

/** See the head of this file. */
export class Backups {
  readonly #store: Store;
  readonly #jobs: BackupJobs;
  readonly #onRestored: () => void;

  constructor(store: Store, jobs: BackupJobs, onRestored: () => void) {
    this.#store = store;
    this.#jobs = jobs;
    this.#onRestored = onRestored;
  }

  #file(id: string): string {
    const file = join(this.#store.folders.backups, `${id}.zip`);
    if (id.includes('/') || !existsSync(file)) throw new HttpError(404, 'Backup not found');
    return file;
  }

  #open(id: string): Archive {
    const archive = unpack(readFileSync(this.#file(id)));
    if (archive === undefined) throw new HttpError(404, 'Backup not found');
    return archive;
  }

  list(): Answer {
    const names = readdirSync(this.#store.folders.backups).filter((name) => name.endsWith('.zip'));
    const metas = names.map((name) => withoutSignature(this.#open(name.slice(0, -4)).meta));
    return ok(metas.sort((a, b) => b.created_at.localeCompare(a.created_at)));
  }

  get({ words }: Call): Answer {
    const archive = this.#open(words[0] ?? '');
    return ok({ ...withoutSignature(archive.meta), workspace_stats: workspaceStats(archive) });
  }

  async #createRequest(call: Call): Promise<CreateRequest> {
    const body = await readJson(call.request);
    mustHave(body, 'name');
    const scope = typeof body['scope'] === 'object' && body['scope'] !== null ? body['scope'] : {};
    return {
      name: String(body['name']),
      description: String(body['description'] ?? ''),
      scope: scopeOf(scope as Record<string, unknown>),
      agents: strings(body['agents']),
    };
  }

  async startJob(call: Call): Promise<Answer> {
    return { status: 202, body: this.#jobs.start(await this.#createRequest(call)) };
  }

  async stream(call: Call): Promise<undefined> {
    const request = await this.#createRequest(call);
    let stream: EventStream | undefined;
    // The job's first event comes at once; the headers are sent only when it was not refused.
    const early: unknown[] = [];
    this.#jobs.start(request, (event) => {
      if (stream === undefined) early.push(event);
      else stream.send(event);
      if (event['type'] === 'done' || event['type'] === 'error') stream?.end();
    });
    stream = new EventStream(call.response);
    for (const event of early) stream.send(event);
  }

  activeJob(): Answer {
    return ok(this.#jobs.active ?? null);
  }

  job({ words }: Call): Answer {
    return ok(this.#jobs.find(words[0] ?? ''));
  }

  cancelJob({ words }: Call): Answer {
    return ok(this.#jobs.cancel(words[0] ?? ''));
  }

  async remove(call: Call): Promise<Answer> {
    const body = await readJson(call.request);
    mustHave(body, 'ids');
    return await this.#jobs.alone('delete', async () => {
      const deleted: string[] = [];
      const failed: { id: string; reason: string }[] = [];
      for (const id of strings(body['ids'])) {
        const file = join(this.#store.folders.backups, `${id}.zip`);
        if (existsSync(file)) {
          rmSync(file);
          deleted.push(id);
        } else failed.push({ id, reason: 'not found' });
      }
      return ok({ deleted, failed });
    });
  }

  export({ words, request, response }: Call): undefined {
    const id = words[0] ?? '';
    const file = this.#file(id);
    const { size, mtime } = statSync(file);
    const headers = {
      'content-type': 'application/zip',
      'accept-ranges': 'bytes',
      'content-disposition': `attachment; filename="${id}.zip"`,
      'last-modified': mtime.toUTCString(),
      etag: `"${createHash('md5').update(`${id}-${size}`).digest('hex')}"`,
    };
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
    const from = range === null ? 0 : Number(range[1]);
    const to = Math.min(size - 1, range === null || range[2] === '' ? size - 1 : Number(range[2]));
    if (from > to) {
      response.writeHead(416, { 'content-range': `*/${size}`, 'content-length': 0 }).end();
      return;
    }
    const length = { 'content-length': to - from + 1 };
    if (range === null) response.writeHead(200, { ...headers, ...length });
    else response.writeHead(206, { ...headers, ...length, 'content-range': `bytes ${from}-${to}/${size}` });
    createReadStream(file, { start: from, end: to })
      .on('error', () => response.destroy())
      .pipe(response);
  }

  async import(call: Call): Promise<Answer> {
    const type = call.request.headers['content-type'] ?? '';
    const form = await new Response(new Uint8Array(await readBody(call.request)), { headers: { 'content-type': type } })
      .formData()
      .catch(() => new FormData());
    const [pending, trust, file] = [form.get('pending_token'), form.get('trust_mode'), form.get('file')];
    mustBeOneOf('trust_mode', trust, ['legacy', 'foreign']);
    return await this.#jobs.alone('import', async () => {
      if (typeof pending === 'string') return this.#importPending(pending);
      if (file === null || typeof file === 'string') throw new HttpError(400, 'file is required');
      return this.#accept(Buffer.from(await file.arrayBuffer()), typeof trust === 'string' ? trust : 'none', false);
    });
  }

  #importPending(token: string): Answer {
    const file = join(this.#store.folders.backups, token);
    const trust = PENDING_NAME.exec(token)?.[1];
    if (trust === undefined || !existsSync(file)) throw new HttpError(400, 'Invalid or expired pending_token');
    const content = readFileSync(file);
    rmSync(file);
    return this.#accept(content, trust, true);
  }

  #accept(zip: Buffer, trust: string, mayOverwrite: boolean): Answer {
    const archive = unpack(zip);
    if (archive === undefined) throw new HttpError(400, 'Uploaded file is not a valid zip archive');
    const { meta } = archive;
    const isOwn = meta.signature === signatureOf(this.#store, archive);
    const isTrusted = isOwn || (meta.signature === null ? trust === 'legacy' : trust === 'foreign');
    if (!isTrusted) {
      const message = 'Backup signature does not match this instance.';
      throw new HttpError(400, { code: 'backup_signature_mismatch', message });
    }
    const target = join(this.#store.folders.backups, `${meta.id}.zip`);
    if (existsSync(target) && !mayOverwrite) {
      const token = `tmp${randomBytes(4).toString('hex')}.upload_tmp.trust_${trust}`;
      writeFileSync(join(this.#store.folders.backups, token), zip);
      const existing = withoutSignature(this.#open(meta.id).meta);
      return { status: 409, body: { detail: 'backup_conflict', existing, pending_token: token } };
    }
    if (!isOwn) {
      meta.accepted_via_trust = true;
      meta.signature = signatureOf(this.#store, archive);
    }
    writeFileSync(`${target}.tmp`, pack(archive));
    renameSync(`${target}.tmp`, target);
    return ok(meta);
  }

  async restore(call: Call): Promise<Answer> {
    const body = await readJson(call.request);
    mustBeOneOf('mode', body['mode'], ['full', 'custom']);
    mustBeOneOf('trust_mode', body['trust_mode'], ['legacy', 'foreign']);
    const archive = this.#open(call.words[0] ?? '');
    const isTrustedOnly = archive.meta.accepted_via_trust || typeof body['trust_mode'] === 'string';
    const preserveProtected = flag(body, 'preserve_local_protected_config', isTrustedOnly);
    return await this.#jobs.alone('restore', async () => {
      await sleep(RESTORE_MS);
      restoreFiles(this.#store, archive, {
        ...scopeOf(body),
        mode: body['mode'] === 'full' ? 'full' : 'custom',
        agentIds: strings(body['agent_ids']),
        preserveProtected,
      });
      this.#onRestored();
      return ok({ ok: true, preserved_local_keys: preserveProtected ? [...PROTECTED_KEYS] : [] });
    });
  }
}
