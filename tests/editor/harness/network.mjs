/** Who talks to another machine: the programs of the editor, as Linux knows their sockets, and the browser's page. */

import { readdirSync, readFileSync, readlinkSync } from "node:fs";

const OFTEN_MS = 500;

/** Looks again and again at `root` and all that it started; `stop` returns what was seen, one connection a line. */
export function watchConnections(root, page) {
  const seen = new Set();
  const look = () => {
    for (const line of connections(root)) seen.add(line);
  };
  const timer = setInterval(look, OFTEN_MS);
  const asked = ({ url }) => {
    const { protocol, hostname } = new URL(url());
    if (/^(?:http|ws)/.test(protocol) && hostname !== "127.0.0.1") seen.add(`the page asked for ${url()}`);
  };
  page.on("request", (request) => asked({ url: () => request.url() }));
  page.on("websocket", (socket) => asked({ url: () => socket.url() }));
  return {
    stop: () => {
      look();
      clearInterval(timer);
      return [...seen].join("\n");
    },
  };
}

function connections(root) {
  if (process.platform !== "linux") return [];
  const elsewhere = new Map([...table("tcp"), ...table("tcp6"), ...table("udp"), ...table("udp6")]);
  return tree(root).flatMap((pid) =>
    sockets(pid).flatMap((inode) =>
      elsewhere.has(inode) ? [`${read(`/proc/${pid}/comm`).trim()} (${pid}) to ${elsewhere.get(inode)}`] : [],
    ),
  );
}

/** Sockets that have another machine at their other end, by inode. */
function table(kind) {
  const rows = read(`/proc/net/${kind}`).trim().split("\n").slice(1);
  return rows.flatMap((row) => {
    const fields = row.trim().split(/\s+/);
    const address = fields[2]?.split(":")[0] ?? "";
    return isHere(address) ? [] : [[fields[9], `${kind} ${fields[2]}`]];
  });
}

/** Nowhere, 127.x.x.x, ::1, or 127.x.x.x within IPv6; written as the kernel does, low byte first. */
function isHere(address) {
  return /^0*$|7F$|^0{24}01000000$/.test(address);
}

function tree(root) {
  const parents = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => [Number(pid), Number(/\) \S (\d+)/.exec(read(`/proc/${pid}/stat`))?.[1])]);
  const found = [root];
  for (const pid of found) found.push(...parents.filter(([, parent]) => parent === pid).map(([child]) => child));
  return found;
}

function sockets(pid) {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      const target = link(`/proc/${pid}/fd/${fd}`);
      return target.startsWith("socket:[") ? [target.slice(8, -1)] : [];
    });
  } catch {
    return []; // it has ended meanwhile
  }
}

function link(path) {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

function read(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
