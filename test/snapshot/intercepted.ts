/** A port whose every call goes through `around` first: to slow it, fail it, or crash before or after it. */
export function intercepted<Port extends object>(
  port: Port,
  around: (name: string, call: () => Promise<unknown>) => Promise<unknown>,
): Port {
  return new Proxy(port, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function' || typeof name !== 'string') return value;
      return (...args: unknown[]) => around(name, async () => Reflect.apply(value, target, args));
    },
  });
}
