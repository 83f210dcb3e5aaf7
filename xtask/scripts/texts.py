#!/usr/bin/env python3
"""Three kinds of English text for quality sweeps, from Debian packages. Usage: texts.py OUT_DIR

prose.txt      essays               package anarchism       (An Anarchist FAQ, section B.1)
technical.txt  a language tutorial  package python3.X-doc   (the Python tutorial; X as python3-doc depends on)
jargon.txt     a glossary           package jargon-text     (The Jargon File)

None of them is part of the exporter's calibration text. Needs apt-get and dpkg-deb.
"""
import glob
import gzip
import html
import os
import re
import subprocess
import sys
import tempfile

SIZE = 40_000  # characters kept of each kind


def strip(page):
    page = re.sub(r'(?is)<(script|style|head|nav)\b.*?</\1>', '', page)
    page = re.sub(r'(?i)</?(p|br|h\d|li|div|pre|tr|dt|dd)\b[^>]*>', '\n', page)
    page = html.unescape(re.sub(r'<[^>]+>', '', page))
    page = re.sub(r'[ \t\r]+', ' ', page)
    return re.sub(r'\n{3,}', '\n\n', re.sub(r' ?\n ?', '\n', page)).strip()


def reflow(text):
    return re.sub(r'(?<!\n)\n(?!\n)', ' ', text)


def read(path):
    opener = gzip.open if path.endswith('.gz') else open
    with opener(path, 'rt', errors='ignore') as f:
        return f.read()


def python_doc():
    """The documentation package of this release's Python; brings the package lists up to date if there are none."""
    for attempt in range(2):
        found = subprocess.run(['apt-cache', 'depends', 'python3-doc'], capture_output=True, text=True).stdout
        names = re.findall(r'Depends: (python3\.\d+-doc)', found)
        if names:
            return names[0]
        if attempt == 0:
            subprocess.run(['apt-get', 'update', '-qq'], check=True)
    sys.exit('apt knows no package python3-doc')


def main(out):
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory() as tmp:
        os.chmod(tmp, 0o755)
        for package in ('anarchism', python_doc(), 'jargon-text'):
            subprocess.run(['apt-get', '-o', 'APT::Sandbox::User=root', 'download', '-qq', package], cwd=tmp, check=True)
            deb = glob.glob(os.path.join(tmp, package + '_*.deb'))[0]
            subprocess.run(['dpkg-deb', '-x', deb, os.path.join(tmp, 'root')], check=True)
        doc = os.path.join(tmp, 'root/usr/share/doc')
        prose = reflow(strip(read(os.path.join(doc, 'anarchism/html/secB1.html'))))
        tutorial = glob.glob(os.path.join(doc, 'python3.*/html/tutorial'))[0]
        pages = [strip(read(os.path.join(tutorial, p + '.html')))[1500:-800]
                 for p in ('introduction', 'controlflow', 'datastructures', 'classes')]
        jargon = read(glob.glob(os.path.join(doc, 'jargon-text/jargon.txt*'))[0])
        for name, text in (('prose', prose[2000:]), ('technical', '\n\n'.join(pages)), ('jargon', jargon[400_000:])):
            text = text[:SIZE]
            if len(text) < SIZE:
                sys.exit(f'{name}: only {len(text)} characters found')
            with open(os.path.join(out, name + '.txt'), 'w', encoding='utf-8') as f:
                f.write(text)
            print(f'{name}.txt: {len(text)} characters')


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
