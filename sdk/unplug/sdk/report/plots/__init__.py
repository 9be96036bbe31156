"""One plot, one pure function: arrays in, SVG text out. The page's CSS gives the colours, for light
and for dark.
"""
