import * as z from 'zod';
import type { ShardTemplate } from './ports.ts';

const text = z.string().min(1);
const variable = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'is not a name of a variable');
const variables = z.record(variable, z.string());
const secretKey = z.strictObject({
  secret: z.string().regex(/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/, 'is not the name of a Secret'),
  key: z.string().regex(/^[-._a-zA-Z0-9]+$/, 'is not a key of a Secret'),
});
const quantities = z.record(text, z.string().regex(/^\d+(\.\d+)?(m|[kMGTPE]i?)?$/, 'is not a quantity'));
/** A claim's name becomes `<name>-qwenpaw-shard-07-13`, and a label value. */
const claimName = z.string().regex(/^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$/, 'must be a short DNS label');
const path = z.string().regex(/^\/[^:]*$/, 'must be an absolute path without a colon');
/** Seconds, or a count. */
const positive = z.number().int().positive();

const Probe = z.strictObject({
  command: z.array(text).min(1),
  period_seconds: positive,
  timeout_seconds: positive,
  failure_threshold: positive,
});

const Mount = z.strictObject({
  path,
  sub_path: z
    .string()
    .regex(/^(?!\/)(?!.*\.\.).+$/, 'must be relative, without ..')
    .exactOptional(),
});

const Template = z
  .strictObject({
    image: text,
    command: z.array(text).min(1),
    post_init: z.strictObject({ image: text, env: variables, script: text, mounts: z.array(path) }),
    env: variables,
    env_from_secret: z.record(variable, secretKey).exactOptional(),
    image_pull_secrets: z.array(text),
    run_as: z.strictObject({ user: positive, group: positive }),
    grace_seconds: positive,
    resources: z.strictObject({ requests: quantities, limits: quantities }),
    probes: z.strictObject({ startup: Probe, readiness: Probe, liveness: Probe }),
    claims: z
      .array(z.strictObject({ name: claimName, storage_class: text, size: text, mounts: z.array(Mount).min(1) }))
      .min(1),
  })
  .superRefine((template, context) => {
    const paths = template.claims.flatMap((claim) => claim.mounts.map((mount) => mount.path));
    const names = template.claims.map((claim) => claim.name);
    const fault = (path: string[], message: string): void => context.addIssue({ code: 'custom', path, message });
    if (new Set(names).size < names.length) fault(['claims'], 'two claims have the same name');
    if (new Set(paths).size < paths.length) fault(['claims'], 'two mounts have the same path');
    for (const name of Object.keys(template.env_from_secret ?? {})) {
      if (name in template.env) fault(['env_from_secret', name], 'stands in env too');
    }
    for (const path of template.post_init.mounts) {
      if (!paths.includes(path)) fault(['post_init', 'mounts'], `${path} is no mount of a claim`);
    }
  });

/**
 * Checks a shard template (deploy/shard-template.json has the defaults).
 * @throws Error that names every field that is missing, unknown or wrong.
 */
export function parseShardTemplate(input: unknown): ShardTemplate {
  const parsed = Template.safeParse(input);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map((issue) => `${issue.path.join('.') || '(top)'}: ${issue.message}`);
  throw new Error(`shard template: ${faults.join('; ')}`);
}
