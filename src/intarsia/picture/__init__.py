"""Pictures of queries and files: facts as plain values, an SVG of them, and a page that explores them."""

from intarsia.picture.page_map import PageMap
from intarsia.picture.svg import Bar, draw_bars, in_notebook

__all__ = ["Bar", "PageMap", "draw_bars", "in_notebook"]
