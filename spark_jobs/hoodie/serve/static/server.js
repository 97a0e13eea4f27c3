// What the server answers, and what it refuses.

export class Failed extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
  }
}

export async function get(path, query = {}) {
  const url = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== null && one !== undefined) url.searchParams.append(name, one);
  }
  return asked(url, {}, { 403: "You may not see Hoodie's tables: it takes the right to read assets." });
}

// To this origin alone. The type of JSON keeps other sites' forms out: a browser asks before it sends that elsewhere
export function post(path, document_, refused) {
  const url = new URL(path, document.baseURI);
  if (url.origin !== location.origin) throw new Failed(0, { code: "elsewhere", message: `${url.origin} is not where this page is from.` });
  return asked(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(document_) }, refused);
}

async function asked(url, how, refusals) {
  let answer;
  try {
    answer = await fetch(url, { credentials: "same-origin", redirect: "error", ...how });
  } catch {
    throw new Failed(0, { code: "unreachable", message: "The server does not answer. Is it running?" });
  }
  const document_ = await answer.json().catch(() => ({}));
  if (answer.ok) return document_;
  const refused = { 401: "You are not signed in to Airflow, or no longer. Sign in, then load this page again.", ...refusals }[answer.status];
  const said = typeof document_.detail === "string" ? `: ${document_.detail.slice(0, 300)}` : ".";
  throw new Failed(answer.status, document_.error ?? { code: "http", message: refused ?? `The server answered ${answer.status}${said}` });
}

export const place = (name, ...more) => ["tables", name, ...more].map(encodeURIComponent).join("/");

// Runs act(item) for all items, so many at a time; what one throws is its own
export async function each(items, atOnce, act) {
  const left = [...items];
  const work = async () => {
    while (left.length) await act(left.shift());
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, work));
}
