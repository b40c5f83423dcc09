"""Converts record batches between extractor and writer.

Extractors yield rows in the raw form: dates, times, bytes and enums are the source's text. Writers
receive rows in the typed form, in Arrow's own types. ``dil.model.arrow`` defines both forms.
"""
