// The states of pages and of files before those of "skipped by step k" and "excluded by cause k"; see facts.py.

export const [READ, PROVEN] = [0, 1];
export const [FILE_READ, READ_IN_VAIN] = [1, 2];
