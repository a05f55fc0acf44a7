"""Pictures of queries and files: facts as plain values, an SVG of them, and a page that explores them."""

from intarsia.picture.page_map import PageMap

__all__ = ["PageMap"]
