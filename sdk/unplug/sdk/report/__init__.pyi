from .inputs import Inputs as Inputs
from .inputs import collect as collect
from .render import render_html as render_html
from .render import write_report as write_report
