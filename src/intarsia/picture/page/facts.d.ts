/** The facts of a query, as `QueryFacts.to_dict` in facts.py returns them, whose documentation has their meaning. */

export type Look =
  | "read" | "vain" | "proven" | "unneeded" | "statistics" | "page_index" | "bloom" | "dictionary" | "embedded" | "partition"
  | "footer" | "data";

export interface State {
  look: Look;
  text: string;
}

export interface Step {
  index: string;
  column: string;
  label: string;
  look: Look;
  num_rows: number;
  num_left: number;
  rows: number[];
}

export interface Cells {
  start: number[];
  state: number[];
  num_pages: (number | null)[];
  offset: (number | null)[];
  num_bytes: number[];
  num_matches: number[] | null;
  low: unknown[];
  high: unknown[];
  num_nulls: (number | null)[];
}

export interface IndexFacts {
  name: string;
  what: string;
  num_bytes: number | null;
}

export interface Lane {
  name: string;
  type: string;
  role: "where" | "result" | "";
  num_bytes: number | null;
  codec: string;
  encodings: string[];
  indexes: IndexFacts[];
  num_pages: number | null;
  cells: Cells | null;
  by_state: number[];
}

export interface FilePart {
  start: number;
  stop: number;
  look: Look;
  label: string;
  num_read: number;
}

export interface FilePages {
  path: string;
  num_bytes: number;
  num_rows: number;
  writer: string;
  edges: number[];
  states: State[];
  steps: Step[];
  answered: Step[];
  candidates: number[];
  num_candidates: number;
  certain: number[];
  num_certain: number;
  matches: number[] | null;
  num_matches: number | null;
  lanes: Lane[];
  parts: FilePart[];
  reads: number[];
  num_read: number;
  num_requests: number;
  original_bytes: number | null;
  least_bytes: number | null;
  columns_bytes: number;
}

export interface LakeFacts {
  names: (string | null)[];
  num_bytes: number[];
  state: number[];
  states: State[];
  read: [ordinal: number, bytes: number, matches: number | null][];
  lake_index_bytes: number;
}

export interface QueryFacts {
  title: string;
  where: string;
  select: string;
  result: string;
  /** The parts of the report that the page shows. */
  report: {
    files: { total: number, read: number, opened: number };
    pages: { total: number | null, read: number };
    rows: { total: number };
    bytes: { index: number };
  };
  is_plan: boolean;
  num_bytes: number;
  num_read: number;
  num_requests: number;
  least_bytes: number | null;
  columns_bytes: number | null;
  advice: string;
  files: FilePages[];
  lake: LakeFacts | null;
}

/** A column of the query, with the first row after each of its cells. */
export type DrawnLane = Lane & { cells: Cells, stops: number[] };

/** Draws a part of the page again, when its size or the theme has changed. */
export type Drawing = () => void;

/** Shows the pages of a file by its place in `files`; all columns, or the first ones. */
export type Show = (place: number, all?: boolean) => void;

/** What the charts of a file share. */
export interface Shared {
  file: FilePages;
  lanes: DrawnLane[];
  /** The rows of the magnified chart. */
  view: { from: number, to: number };
  /** The page under the pointer or the keys. */
  cursor: { lane: DrawnLane | null, cell: number };
  buttons: [DrawnLane, HTMLElement][];
  drawings: Drawing[];
  magnified: { set(from: number, to: number): void, zoom(by: number, at?: number): void } | null;
  showPage(lane: DrawnLane, cell: number): void;
  showIndexes(lane: DrawnLane): void;
}
