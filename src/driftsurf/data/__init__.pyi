from driftsurf.data.formats._bytes import polling as polling
from driftsurf.data.reading_options import ReadingOptions as ReadingOptions
from driftsurf.data.source import BadRow as BadRow
from driftsurf.data.source import Position as Position
from driftsurf.data.source import Source as Source
from driftsurf.data.source import open_source as open_source
from driftsurf.data.sources.files import FileSource as FileSource

__all__: list[str]
